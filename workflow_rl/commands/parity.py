"""The command `parity`: is every episode of the compiled simulator CybORG's?"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from workflow_rl.cage2 import parity as cage2
from workflow_rl.cage2.agent.scripted import ScriptedAgent
from workflow_rl.cage2.env.arguments import MOST
from workflow_rl.cage2.registration import ENV_ID as CAGE2
from workflow_rl.cage2.scenario2 import RED_AGENTS as CAGE2_REDS
from workflow_rl.cage4 import parity as cage4
from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.cyborg.checkout import CheckoutError, checkout
from workflow_rl.cage4.cyborg.simulators import LEAST_STEPS
from workflow_rl.cage4.interface import MAX_STEPS
from workflow_rl.cage4.interface import RED_AGENTS as CAGE4_REDS
from workflow_rl.cage4.registration import ENV_ID as CAGE4
from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.guest_options import place_options
from workflow_rl.commands.options import (
    EPISODES,
    PATH,
    PROCESSES,
    SEED,
    TRUST,
    accept_agent,
    given_options,
    spelling,
)
from workflow_rl.output_files import require_writable
from workflow_rl.runs.config import usable_cores

CHECKPOINT = "checkpoint"
BLUES = {CAGE2: (*cage2.BLUE_AGENTS, *cage2.HOARDERS, CHECKPOINT), CAGE4: tuple(TEAMS)}
REDS = {CAGE2: CAGE2_REDS, CAGE4: CAGE4_REDS}
OWN = {CAGE2: ("checkpoint", "network_episodes", "trust"), CAGE4: ("state_every", "record")}
"""Options of one environment alone."""
_OPTIONS: list[click.Parameter] = [
    click.Option(["--env"], type=click.Choice(list(REDS)), default=CAGE2, show_default=True,
                 metavar="ID", help="The challenge."),
    click.Option(["--episodes"], type=EPISODES, default=100, show_default=True,
                 metavar="N", help="Episodes of each pair of a red and a blue agent."),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="Seed of the first episode; each further episode has the next seed."),
    click.Option(["--red-agent", "red_agents"], multiple=True,
                 type=click.Choice(list(dict.fromkeys([*CAGE2_REDS, *CAGE4_REDS]))),
                 help="Only this red agent. May be given again.  [default: all of the challenge]"),
    click.Option(["--blue", "blues"], multiple=True,
                 type=click.Choice(list(dict.fromkeys([*BLUES[CAGE2], *BLUES[CAGE4]]))),
                 help="Only this blue agent. May be given again.  [default: all of the challenge "
                      f"but {', '.join(cage2.HOARDERS)}; checkpoint if --checkpoint is given]"),
    click.Option(["--checkpoint"], type=PATH,
                 help="CAGE-2: run folder or checkpoint of --blue checkpoint, whose policy "
                      "samples."),
    click.Option(["--trust"], is_flag=True, help=TRUST),
    click.Option(["--max-steps"], type=click.IntRange(1, MOST), metavar="N",
                 help="Length of an episode in steps.  [default: 100; CAGE-4: 500]"),
    click.Option(["--network-episodes"], type=click.IntRange(0, 1_000_000), default=0,
                 show_default=True, metavar="N",
                 help="CAGE-2: in the first N episodes of each pair, also compare the simulated "
                      "networks at every step: sessions by host and privilege, processes, ports, "
                      "what Red knows, and the random numbers drawn. This is ten times as slow."),
    click.Option(["--state-every"], type=click.IntRange(1), default=10, show_default=True,
                 metavar="N",
                 help="CAGE-4: Number of steps between comparisons of the whole simulated "
                      "networks."),
    click.Option(["--record"], type=PATH, metavar="FILE", default=Path("cage4-parity.jsonl"),
                 show_default=True,
                 help="CAGE-4: File of results. A command that was stopped continues from it."),
    click.Option(["--stock-simulator"], is_flag=True,
                 help="CAGE-2: compare with csle-cyborg without the speed-ups, which is slower. "
                      "CAGE-4: compare CybORG as published with the sped-up one."),
    click.Option(["--n-workers"], type=PROCESSES, metavar="N",
                 help="Processes.  [default: one a core]"),
    click.Option(["--quiet"], is_flag=True, help="No progress bar."),
    *place_options(),
]  # fmt: skip


@click.command(params=_OPTIONS, cls=ClearCommand)
def parity(**options: Any) -> None:
    """Play the same episodes in CybORG and in the compiled simulator, and compare every step.

    Observations, rewards, actions and successes must be the same; on CAGE-4 also masks, messages
    and the generator of random numbers. The command prints the first differences. It exits with 1
    if there is one.

    Example: parity --episodes 2000 --red-agent B_lineAgent --blue random

    Example: parity --env workflow_rl/CAGE4-v0 --cyborg4 cage-challenge-4 --episodes 60
    """
    env = options["env"]
    for other in OWN.keys() - {env}:
        for name in given_options() & set(OWN[other]):
            raise click.UsageError(f"{spelling(name)} is not an option for {env}")
    for name, known in (("blues", BLUES[env]), ("red_agents", REDS[env])):
        for wrong in set(options[name]) - set(known):
            hint = {"blues": "--blue", "red_agents": "--red-agent"}[name]
            raise click.BadParameter(f"{wrong} is none of {env}'s", param_hint=hint)
    (_on_cage2 if env == CAGE2 else _on_cage4)(options)


def _on_cage4(options: dict[str, Any]) -> None:
    """Compare two simulators of CAGE-4."""
    try:
        checkout()
    except CheckoutError as error:
        raise click.UsageError(str(error)) from None
    max_steps = options["max_steps"] or MAX_STEPS
    if max_steps < LEAST_STEPS:
        raise click.BadParameter(f"{max_steps} is below {LEAST_STEPS}", param_hint="--max-steps")
    require_writable(options["record"], "--record")
    names = ("cyborg-stock", "cyborg") if options["stock_simulator"] else ("cyborg", "compiled")
    blues, reds = options["blues"] or BLUES[CAGE4], options["red_agents"] or CAGE4_REDS
    # The first episode of every pair comes before the second of any.
    rounds = itertools.product(range(options["episodes"]), itertools.product(blues, reds))
    seeds = itertools.count(options["seed"])
    pairs = [cage4.Pair(blue, red, next(seeds), max_steps) for _, (blue, red) in rounds]
    played = cage4.comparisons(
        pairs,
        names,
        options["record"],
        max_steps,
        options["state_every"],
        options["n_workers"] or usable_cores(),
    )
    results = []
    quiet = options["quiet"] or None
    for result in tqdm(played, total=len(pairs), unit="ep", disable=quiet):
        results.append(result)
        if result.difference:
            tqdm.write(result.difference)
    click.echo("\n".join(cage4.summary(results, names)))
    if any(result.difference for result in results):
        raise SystemExit(1)


def _on_cage2(options: dict[str, Any]) -> None:
    """Compare CybORG and the compiled simulator of CAGE-2."""
    checkpoint: Path | None = options["checkpoint"]
    blues = options["blues"] or cage2.BLUE_AGENTS + (CHECKPOINT,) * (checkpoint is not None)
    if checkpoint is not None and CHECKPOINT not in blues:
        raise click.UsageError("--checkpoint goes with --blue checkpoint")
    if checkpoint is not None:
        accept_agent(checkpoint, options["trust"], "--checkpoint")
    agents = {blue: _chosen_agent(blue, checkpoint) for blue in blues}
    max_steps, n_episodes = options["max_steps"] or 100, options["episodes"]
    n_networks = min(options["network_episodes"], n_episodes)
    seeds = range(options["seed"], options["seed"] + n_episodes)
    red_agents = tuple(dict.fromkeys(options["red_agents"])) or CAGE2_REDS
    shares = list(cage2.shares_of(red_agents, agents, seeds, n_networks))
    simulator = "cyborg-stock" if options["stock_simulator"] else "cyborg"
    n_workers = min(options["n_workers"] or usable_cores(), len(shares))
    start = time.perf_counter()
    first: dict[tuple[str, str], cage2.Difference | None] = {}
    n_played = n_networks_played = 0
    results = cage2.first_differences(shares, simulator, max_steps, n_workers)
    n_asked = sum(len(share.seeds) for share in shares)
    with tqdm(total=n_asked, unit="ep", disable=options["quiet"] or None) as progress_bar:
        for share, difference in zip(shares, results, strict=True):
            pair = share.red_agent, share.blue
            first[pair] = first.get(pair) or difference
            played = _n_played(share, difference)
            n_played += played
            n_networks_played += played * share.networks
            progress_bar.update(len(share.seeds))
            if share.seeds[-1] == seeds[-1]:
                result = first[pair] or (
                    f"{share.red_agent}, blue {share.blue}: {n_episodes} episodes, networks "
                    f"compared in {n_networks}: no difference"
                )
                progress_bar.write(str(result))
    n_different = sum(difference is not None for difference in first.values())
    click.echo(
        f"{n_played} episodes of {max_steps} steps from seed {seeds[0]}, networks compared in "
        f"{n_networks_played}: {n_different} of {len(first)} pairs of agents differ "
        f"({time.perf_counter() - start:.1f} s)"
    )
    if n_different:
        raise SystemExit(1)


def _n_played(share: cage2.Share, difference: cage2.Difference | None) -> int:
    return len(share.seeds) if difference is None else difference.seed - share.seeds[0] + 1


def _chosen_agent(blue: str, checkpoint: Path | None) -> ScriptedAgent:
    if blue != CHECKPOINT:
        return cage2.make_blue_agent(blue)
    if checkpoint is None:
        raise click.UsageError("--blue checkpoint: give a run folder or file by --checkpoint")
    from workflow_rl.cage2.scoring.players import load_actor
    from workflow_rl.runs.checkpoint import checkpoint_path

    return cage2.PolicyAgent(load_actor(checkpoint_path(checkpoint), greedy=False))
