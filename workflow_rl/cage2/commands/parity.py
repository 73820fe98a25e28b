"""CAGE-2's part of the command `parity`, which compares CybORG with the compiled simulator."""

import time
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage.attackers import AttackerError
from workflow_rl.cage.commands.parity import shared_options
from workflow_rl.cage.comparison import comparisons
from workflow_rl.cage2.agent.blue import Blue
from workflow_rl.cage2.agent.red_scripted import DRAWN_REDS
from workflow_rl.cage2.agent.scripted import HOARDERS, MIXTURES, SCRIPTED_AGENTS, make_blue_agent
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.parity import Cage2Comparison
from workflow_rl.cage2.red.roster import able_reds, refusals
from workflow_rl.cage2.scenario.loading import scenario_of, scenario_text
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import MAX_STEPS, PUBLISHED
from workflow_rl.cage2.scenario2 import RED_AGENTS, RED_ENV_ID, SCENARIO2, ScenarioError
from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import SAVED, Read, plain_option
from workflow_rl.errors import ConfigError
from workflow_rl.machine_facts import usable_cores

CHECKPOINT = "checkpoint"
BLUE_AGENTS = (*SCRIPTED_AGENTS, *MIXTURES)
BLUES = (*BLUE_AGENTS, *HOARDERS, CHECKPOINT)
REDS = (*RED_AGENTS, *DRAWN_REDS, CHECKPOINT)
_OPTIONS = [
    *shared_options(REDS, BLUES, f"all but {', '.join(HOARDERS)}, and checkpoint "
                                       "only with --checkpoint"),
    plain_option("--checkpoint", type=SAVED, show_default=False,
                 help="Run folder or policy file of the blue agent that --blue checkpoint "
                      "names. The agent samples its actions."),
    plain_option("--red-checkpoint", type=SAVED, show_default=False,
                 help="Run folder or policy file of the red agent that --red-agent checkpoint "
                      f"names, trained on {RED_ENV_ID}. The agent samples its actions."),
    plain_option("--max-steps", type=click.IntRange(1, MAX_STEPS), default=100,
                 help="Length of an episode in steps."),
    plain_option("--network-episodes", type=click.IntRange(0, 1_000_000), default=0,
                 help="In the first N episodes of each pair, also compare the simulated networks "
                      "at every step: sessions, processes, ports, Red's knowledge, and the random "
                      "numbers drawn. This is ten times as slow."),
    plain_option("--scenario", type=Read("FILE", scenario_text), default=SCENARIO2,
                 help="The network: scenario2, or a scenario file."),
    plain_option("--stock", is_flag=True,
                 help="Compare with csle-cyborg without the speed-ups. This is slower."),
]  # fmt: skip


@click.command("parity", params=_OPTIONS, cls=ClearCommand)
def parity_of_cage2(**options: Any) -> None:
    """Compare CybORG and the compiled simulator of CAGE-2.

    The red agents any-action, possible-action and impossible-action draw Red's actions outside of
    both simulators. With these red agents, the command also compares Red's observations.
    """
    blues = _names(options["blues"], BLUE_AGENTS, options, "--blue", "checkpoint")
    scenario = _one_scenario(options["scenario"])
    # DRAWN_REDS draw from Scenario 2's actions, so they cannot play in another scenario.
    able = (*RED_AGENTS, *DRAWN_REDS) if scenario.is_scenario2 else able_reds(scenario)
    reds = _names(options["red_agents"], able, options, "--red-agent", "red_checkpoint")
    for red in reds:
        if not scenario.is_scenario2 and red not in able:
            reason = refusals(scenario).get(red, "it is made for scenario2")
            raise click.UsageError(f"--red-agent {red} cannot play in {scenario}: {reason}")
    agents = {blue: _chosen_agent(blue, options["checkpoint"], scenario) for blue in blues}
    red_agents = {red: _chosen_red(red, options["red_checkpoint"], scenario) for red in reds}
    max_steps = options["max_steps"]
    simulator = PUBLISHED if options["stock"] else "cyborg"
    if scenario.is_cage1:
        if options["stock"]:
            raise click.UsageError(f"--stock: csle-cyborg does not play {scenario}")
        try:
            Cage2(simulator=simulator, scenario=scenario.text).check()
        except ConfigError as error:
            raise click.UsageError(error.message) from None
    # This compiles the simulator once, so that the processes load it from disk.
    Cage2(simulator="compiled", max_steps=max_steps, scenario=scenario.text).check()
    challenge = Cage2Comparison(simulator, max_steps, scenario, agents, red_agents)
    if _n_different(challenge, options):
        raise SystemExit(1)


def _n_different(challenge: Cage2Comparison, options: dict[str, Any]) -> int:
    """Play and print the comparison. Return the number of pairs of agents that differ."""
    start = time.perf_counter()
    n_episodes = options["episodes"]
    n_networks = min(options["network_episodes"], n_episodes)
    seeds = range(options["seed"], options["seed"] + n_episodes)
    shares = list(challenge.shares(seeds, n_networks))
    results = comparisons(challenge, shares, options["n_workers"] or usable_cores())
    first_differences: dict[tuple[str, str], str] = {}
    n_played = 0
    n_networks_played = 0
    n_asked = sum(len(share.episodes) for share in shares)
    with tqdm(total=n_asked, unit="ep", disable=options["quiet"] or None) as progress_bar:
        for share, played in zip(shares, results, strict=True):
            blue, red, last_seed, _ = share.episodes[-1]
            difference = first_differences.get((red, blue)) or played[-1].difference
            first_differences[red, blue] = difference
            n_played += len(played)
            if share.network_every:
                n_networks_played += len(played)
            progress_bar.update(len(share.episodes))
            if last_seed == seeds[-1]:
                result = difference or (
                    f"{red}, blue {blue}: {n_episodes} episodes, networks compared in "
                    f"{n_networks}: no difference"
                )
                progress_bar.write(result)
    n_different = sum(difference != "" for difference in first_differences.values())
    click.echo(
        f"{n_played} episodes of {challenge.max_steps} steps from seed {seeds[0]}, networks "
        f"compared in {n_networks_played}: {n_different} of {len(first_differences)} pairs of "
        f"agents differ ({time.perf_counter() - start:.1f} s)"
    )
    return n_different


def _names(
    asked: tuple[str, ...], names: tuple[str, ...], options: dict[str, Any], option: str, file: str
) -> tuple[str, ...]:
    """Return the agents that an option names, each once. By default, return all `names`, and also
    CHECKPOINT if its file is given. file: the option of this file, as a key of `options`."""
    checkpoint: Path | None = options[file]
    if asked:
        names = tuple(dict.fromkeys(asked))
    elif checkpoint is not None:
        names = (*names, CHECKPOINT)
    with_file = f"--{file.replace('_', '-')}"
    if checkpoint is not None and CHECKPOINT not in names:
        raise click.UsageError(f"{with_file} goes with {option} checkpoint")
    if checkpoint is None and CHECKPOINT in names:
        raise click.UsageError(f"{option} checkpoint: give a run folder or file by {with_file}")
    return names


def _one_scenario(text: str) -> Scenario:
    try:
        return scenario_of(text)
    except ScenarioError as error:
        raise click.BadParameter(str(error), param_hint="--scenario") from None


def _chosen_agent(blue: str, checkpoint: Path | None, scenario: Scenario) -> Blue:
    if blue != CHECKPOINT or checkpoint is None:
        try:
            return make_blue_agent(blue, scenario)
        except ValueError as error:
            raise click.UsageError(f"--blue {blue}: {error}") from None
    from workflow_rl.cage2.scoring.players import load_blue

    return load_blue(checkpoint, scenario, greedy=False)


def _chosen_red(red: str, checkpoint: Path | None, scenario: Scenario) -> Actor | None:
    if red != CHECKPOINT or checkpoint is None:
        return DRAWN_REDS.get(red)
    from workflow_rl.cage2.red.user_reds import red_policy

    try:
        return red_policy(str(checkpoint), greedy=False, scenario=scenario)
    except AttackerError as error:
        raise click.UsageError(f"--red-checkpoint: {error}") from None
