"""CAGE-4's part of the command `parity`, which compares CybORG with the compiled simulator."""

import itertools
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from workflow_rl.cage.attackers import AttackerError
from workflow_rl.cage.commands.parity import shared_options
from workflow_rl.cage.comparison import ComparedEpisode
from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.cyborg.checkout import CheckoutError, cyborg_checkout
from workflow_rl.cage4.env.arguments import ScenarioSettings
from workflow_rl.cage4.parity import Cage4Comparison, recorded_comparisons, summary
from workflow_rl.cage4.red.roster import load_reds
from workflow_rl.cage4.red.scripted import RED_TEAMS
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.simulator_protocol import PUBLISHED
from workflow_rl.commands.options import PATH, plain_option, setting_options
from workflow_rl.machine_facts import usable_cores
from workflow_rl.output_files import require_writable

_OPTIONS = [
    *shared_options((*scenario4.RED_AGENTS, *RED_TEAMS), tuple(TEAMS), "all"),
    plain_option("--red-checkpoint", type=PATH, show_default="none",
                 help="Also play a red team that was trained on "
                      f"{scenario4.RED_ENV_ID}. A run folder or a policy file."),
    plain_option("--max-steps", type=click.IntRange(scenario4.LEAST_STEPS, scenario4.MAX_STEPS),
                 default=scenario4.MAX_STEPS, help="Length of an episode in steps."),
    plain_option("--state-every", type=click.IntRange(1), default=10,
                 help="Number of steps between comparisons of the whole simulated networks."),
    plain_option("--record", type=PATH, metavar="FILE", default=Path("cage4-parity.jsonl"),
                 help="File of results. A stopped command continues from this file."),
    plain_option("--stock", is_flag=True,
                 help="Compare the published CybORG with the sped-up CybORG."),
    *setting_options(ScenarioSettings),
]  # fmt: skip


@click.command("parity", params=_OPTIONS)
def parity_of_cage4(**options: Any) -> None:
    """Compare two simulators of CAGE-4.

    The red teams random-reds, careless-reds and program-reds choose their actions outside of the
    simulators, as trained teams do. For these teams, what red agents see is compared, too.
    """
    try:
        cyborg_checkout()
    except CheckoutError as error:
        raise click.UsageError(str(error)) from None
    max_steps = options["max_steps"]
    require_writable(options["record"], "--record")
    names = (PUBLISHED, "cyborg") if options["stock"] else ("cyborg", "compiled")
    blues = options["blues"] or tuple(TEAMS)
    reds = options["red_agents"]
    if (trained := options["red_checkpoint"]) is not None:
        try:
            load_reds(str(trained))
        except AttackerError as error:
            raise click.UsageError(f"--red-checkpoint: {error}") from None
        reds = *reds, str(trained)
    reds = reds or (*scenario4.RED_AGENTS, *RED_TEAMS)
    # Every pair plays its first episode before any pair plays its second episode.
    pairs = list(itertools.product(blues, reds)) * options["episodes"]
    episodes = [
        ComparedEpisode(blue, red, seed, max_steps)
        for seed, (blue, red) in enumerate(pairs, start=options["seed"])
    ]
    played = recorded_comparisons(
        Cage4Comparison(names, max_steps, scenario4.Scenario.among(options)),
        episodes,
        options["record"],
        options["state_every"],
        options["n_workers"] or usable_cores(),
    )
    results = []
    quiet = options["quiet"] or None
    for result in tqdm(played, total=len(episodes), unit="ep", disable=quiet):
        results.append(result)
        if result.difference:
            tqdm.write(result.difference)
    click.echo("\n".join(summary(results, names)))
    if any(result.difference for result in results):
        raise SystemExit(1)
