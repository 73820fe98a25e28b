"""The command `parity`: is every episode of the compiled simulator CybORG's?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from workflow_rl.cage2.agent.scripted import ScriptedAgent
from workflow_rl.cage2.env.arguments import MOST
from workflow_rl.cage2.parity import (
    BLUE_AGENTS,
    HOARDERS,
    Difference,
    PolicyAgent,
    Share,
    first_differences,
    make_blue_agent,
    shares_of,
)
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.options import EPISODES, PATH, PROCESSES, SEED
from workflow_rl.runs.config import usable_cores

CHECKPOINT = "checkpoint"
_OPTIONS: list[click.Parameter] = [
    click.Option(["--episodes"], type=EPISODES, default=100, show_default=True,
                 metavar="N", help="Episodes of each pair of a red and a blue agent."),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="Seed of the first episode; each further episode has the next seed."),
    click.Option(["--red-agent", "red_agents"], type=click.Choice(RED_AGENTS), multiple=True,
                 default=RED_AGENTS, help="Only this red agent. May be given again.  "
                                          "[default: all three]"),
    click.Option(["--blue", "blues"], multiple=True,
                 type=click.Choice((*BLUE_AGENTS, *HOARDERS, CHECKPOINT)),
                 help="Only this blue agent. May be given again.  [default: all but "
                      f"{', '.join(HOARDERS)}; checkpoint if --checkpoint is given]"),
    click.Option(["--checkpoint"], type=PATH,
                 help="Run folder or checkpoint of --blue checkpoint, whose policy samples."),
    click.Option(["--max-steps"], type=click.IntRange(1, MOST), default=100,
                 show_default=True, metavar="N", help="Length of an episode in steps."),
    click.Option(["--network-episodes"], type=click.IntRange(0, 1_000_000), default=0,
                 show_default=True, metavar="N",
                 help="In the first N episodes of each pair, also compare the simulated networks "
                      "at every step: sessions by host and privilege, processes, ports, what Red "
                      "knows, and the random numbers drawn. This is ten times as slow."),
    click.Option(["--stock-simulator"], is_flag=True,
                 help="Compare with csle-cyborg without the speed-ups, which is slower."),
    click.Option(["--n-workers"], type=PROCESSES, metavar="N",
                 help="Processes.  [default: one a core]"),
    click.Option(["--quiet"], is_flag=True, help="No progress bar."),
]  # fmt: skip


@click.command(params=_OPTIONS, cls=ClearCommand)
def parity(**options: Any) -> None:
    """Play the same episodes in CybORG and in the compiled simulator, and compare every step.

    Observations, rewards, actions and successes must be the same. For each pair of agents the
    command prints the first difference, with both networks. It exits with 1 if there is one.

    Example: parity --episodes 2000 --red-agent B_lineAgent --blue random
    """
    checkpoint: Path | None = options["checkpoint"]
    blues = options["blues"] or BLUE_AGENTS + (CHECKPOINT,) * (checkpoint is not None)
    if checkpoint is not None and CHECKPOINT not in blues:
        raise click.UsageError("--checkpoint goes with --blue checkpoint")
    agents = {blue: _chosen_agent(blue, checkpoint) for blue in blues}
    max_steps, n_episodes = options["max_steps"], options["episodes"]
    n_networks = min(options["network_episodes"], n_episodes)
    seeds = range(options["seed"], options["seed"] + n_episodes)
    red_agents = tuple(dict.fromkeys(options["red_agents"]))
    shares = list(shares_of(red_agents, agents, seeds, n_networks))
    simulator = "cyborg-stock" if options["stock_simulator"] else "cyborg"
    n_workers = min(options["n_workers"] or usable_cores(), len(shares))
    start = time.perf_counter()
    first: dict[tuple[str, str], Difference | None] = {}
    n_played = n_networks_played = 0
    results = first_differences(shares, simulator, max_steps, n_workers)
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


def _n_played(share: Share, difference: Difference | None) -> int:
    return len(share.seeds) if difference is None else difference.seed - share.seeds[0] + 1


def _chosen_agent(blue: str, checkpoint: Path | None) -> ScriptedAgent:
    if blue != CHECKPOINT:
        return make_blue_agent(blue)
    if checkpoint is None:
        raise click.UsageError("--blue checkpoint: give a run folder or file by --checkpoint")
    from workflow_rl.cage2.scoring.players import load_actor
    from workflow_rl.runs.checkpoint import checkpoint_path

    return PolicyAgent(load_actor(checkpoint_path(checkpoint), greedy=False))
