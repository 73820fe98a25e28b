"""The command that trains both sides of an environment against each other."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from workflow_rl.commands.config_words import pairs_of, show_config
from workflow_rl.commands.errors import own_command, training_errors
from workflow_rl.commands.options import PAIR, given_settings, plain_option, setting_options, under
from workflow_rl.commands.options_by_env import chosen_env
from workflow_rl.commands.training_options import new_config, training_command
from workflow_rl.studies.duel_config import DuelConfig
from workflow_rl.terminal import printable
from workflow_rl.text_table import text_table


def mode_option() -> click.Option:
    modes = click.Choice(["async", "sync"])
    text = "Trainer of each run, train-sync or train-async."
    return plain_option("--mode", type=modes, default="async", help=text)


def same_command(path: Path) -> str:
    """Return how to continue a command that was stopped while it filled a folder."""
    return f"the same command, with --run-dir {path}"


_START = plain_option(
    "--start", type=PAIR, multiple=True, metavar="SIDE=AGENT",
    show_default="an untrained policy",
    help="An agent that a side begins with: a policy file, or a name that the environment knows; "
         "may be given again. The first side begins with policies.",
)  # fmt: skip


@training_command(
    "train-duel",
    under("Duel", mode_option(), *setting_options(DuelConfig), _START),
    without=(
        *("resume", "n_policies", "init_from", "final_evaluation", "trace", "teacher"),
        "on_update",
    ),
)
def train_duel(**options: Any) -> None:
    """Train both sides of an environment: each learns against mixtures of the other's policies.

    Policy-space response oracles (Lanctot et al. 2017). In each generation, each side trains a new
    policy, in a run of --total-episodes, against a mixture of all policies of the other side. Then
    all pairs play each other, and the equilibrium of the payoff table is the next mixture. The
    table holds what the first side gets, and takes this for what the second loses: in a game that
    is not zero-sum, the mixtures are no equilibrium. The environment is a team of two sides, such
    as PettingZoo's ParallelEnv. The same seed gives the same weights, whatever the number of
    workers. If the command is stopped, give it again: it goes on in --run-dir, to the same weights.

    \b
    Examples:
      train-duel --env examples.small_games:Kuhn --total-episodes 4000
      train-duel --env my_tag:Tag --sides 'adversary_*=chasers,*=runner' --total-episodes 2000
    """
    config = new_config(options["mode"], options)
    settings = given_settings(DuelConfig, options)
    start: dict[str, list[str]] = {}
    for side, agent in options["start"]:
        start.setdefault(side, []).append(str(agent))
    from workflow_rl.runs.execute import require_ready, run_folder
    from workflow_rl.studies.duel import checked_sides, run_duel

    require_ready(config)
    checked_sides(config, settings, start)
    if options["dry_run"]:
        show_config(config, options)
        for name, value in settings.to_dict().items():
            click.echo(f"{name}: {printable(value)}")
        return
    with (
        run_folder(options["run_dir"], config) as path,
        training_errors(same_command(path), path),
    ):
        record = run_duel(*(config, path, settings, start), click.echo, options["quiet"])
    for side, shares in record.mixtures[-1].items():
        drawn = [
            (agent, share)
            for agent, share in zip(record.agents[side], shares, strict=True)
            if share
        ]
        told = ", ".join(f"{agent} {share:.1%}" for agent, share in drawn)
        click.echo(f"mixture of {side}:  {told}")
    kinds = [np.array([*payoffs.values()]) for payoffs in record.by_kind.values()]
    first, agents = next(iter(record.agents.items()))
    rows = [
        [agent, *(f"{of[:, row].mean():.2f} ({of[:, row].min():.2f})" for of in kinds)]
        for row, agent in enumerate(agents)
    ]
    click.echo(f"What {first} gets from each kind of opponent: the mean (and the lowest)")
    click.echo(text_table([first, *record.by_kind], rows))
    click.echo(f"duel:     {path / 'duel.json'}, and in the same folder a run of each policy")
    click.echo(f"picture:  {path / 'duel.png'}")
    asked = [("--env", config.env), ("--preset", config.preset), ("--sides", settings.sides)]
    words = [word for option, value in asked if value for word in (option, value)]
    args = chosen_env(options)["env_args"]
    # The content alone is known of a file, such as a scenario's.
    words += pairs_of("env_args", {n: "FILE" if "\n" in str(v) else v for n, v in args.items()})
    click.echo(f"how far a new opponent gets:  {own_command('exploit', path, *words)}")
