"""The command `train-workflow` trains an agent that fixes groups of hosts in any given order."""

from pathlib import Path
from typing import Any

import click

from workflow_rl.commands.errors import own_command, training_errors
from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import (
    COUNT,
    PATH,
    SEED,
    given_options,
    setting_options,
    spelling,
)
from workflow_rl.output_files import read_text

PRESET = "workflow-quick"
MOST_TEXT = 100_000
_ENV_OPTIONS = ("red_agent", "order", "obedience", "penalty")


def _options() -> list[click.Parameter]:
    from workflow_rl.workflows.arguments import OrderedCage2Arguments

    defaults = {"red_agent": "attackers: one of the red agents for each episode"}
    return [
        click.Option(["--run-dir"], type=PATH, required=True, metavar="FOLDER",
                     help="Folder of the run, new or empty. If this command was stopped in the "
                          "folder before, it goes on there."),
        click.Option(["--workflow", "file"], type=PATH, metavar="FILE",
                     help="Groups of hosts and constraints on their order, one a line, such as "
                          "'users: User1 User2' or 'servers < users'.  [default: five types of "
                          "units]"),
        *setting_options(OrderedCage2Arguments, _ENV_OPTIONS, defaults),
        click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                     help="The same seed gives the same agent."),
        click.Option(["--total-episodes"], type=COUNT, default=16_000, show_default=True,
                     metavar="N", help="Episodes of training."),
        click.Option(["--quiet"], is_flag=True, help="No progress bar."),
    ]  # fmt: skip


@click.command(params=_options(), cls=ClearCommand)
def train_workflow(**options: Any) -> None:
    """Train one agent for CAGE-2 that fixes groups of hosts in any given order.

    Each episode of the training draws an order. `train-async --preset workflow-quick` trains the
    same agent, with all options of a run.

    Example: train-workflow --run-dir runs/workflow
    """
    from workflow_rl.cage.recipe import train_recipe
    from workflow_rl.runs.config import TrainConfig

    run_dir: Path = options["run_dir"]
    args = {name: options[name] for name in _ENV_OPTIONS if name in given_options()}
    again = ["train-workflow", "--run-dir", str(run_dir)]
    for name in sorted(given_options() - {"run_dir", "quiet"}):
        again += ["--workflow" if name == "file" else spelling(name), str(options[name])]
    with training_errors(own_command(*again), run_dir):
        if options["file"] is not None:
            args["workflow"] = _text_of(options["file"])
        config = TrainConfig(
            "async",
            preset=PRESET,
            env_args=args,
            seed=options["seed"],
            total_episodes=options["total_episodes"],
        )
        summary = train_recipe(config, run_dir, options["quiet"])
    click.echo(f"{summary['episodes']} episodes, {summary['wall_seconds']:.0f} s")
    click.echo(f"agent:       {run_dir}")
    click.echo(f"which order: {own_command('search-workflow', run_dir)}")


def _text_of(path: Path) -> str:
    try:
        lines = read_text(path, MOST_TEXT).splitlines()
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--workflow") from None
    return "; ".join(text for line in lines if (text := line.partition("#")[0].strip()))
