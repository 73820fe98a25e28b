"""The command `export`: write a trained agent in a format that others read."""

from __future__ import annotations

import functools
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow_rl.commands.errors import own_command
from workflow_rl.commands.options import PATH, SAVED, plain_option, require_run_folder, which_option
from workflow_rl.commands.options_by_env import (
    Look,
    Named,
    OpenCommand,
    env_of_agent,
    scripted_agents,
)
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.source import guests, make_environment
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.output_files import require_writable
from workflow_rl.runs.export import FORMATS, export_policy, fills_folder, needs_of

if TYPE_CHECKING:
    from workflow_rl.environments.challenge import Export, Exported

HUB = "hub"
_ENDINGS = {"npz": (".npz",), "onnx": (".onnx", "")}


def _named(look: Look) -> Named:
    """Return the option --format, with the formats of the agent's environment. A name may be of an
    agent in several environments, so it has the formats of all."""
    files = [Path(word) for word in look.words if os.path.exists(word)]
    found = {env_of_agent(file) for file in files}
    owners = [guests[env_id] for env_id in guests if env_id in found] or guests.importable()
    formats = [name for guest in owners for name in guest.exports()]
    option = plain_option(
        "--format",
        "format_",
        required=True,
        type=click.Choice(list(dict.fromkeys([*FORMATS, HUB, *formats]))),
        help="onnx: the network alone, from observations to logits or means, and "
        "log deviations; for sac and mbpo the means are not squashed yet. npz: the policy as plain "
        "arrays, for this package. hub: a folder for the Hugging Face Hub, with a model card of "
        "the run. Others: a folder for the agent's challenge, which needs NumPy, and for a torch "
        "module of your own onnxruntime.",
    )
    return Named("this agent", [option])


_OPTIONS: list[click.Parameter] = [
    click.Argument(["agent"], type=SAVED),
    plain_option("--output", type=PATH, required=True, metavar="PATH",
                 help="The file to write, or for hub, a challenge and the networks of a team the "
                      "folder, which must be new or empty. A name that ends in .zip makes a zip "
                      "of the folder."),
    plain_option("--overwrite", is_flag=True, help="Replace an existing file."),
    which_option(),
]  # fmt: skip


@click.command(params=_OPTIONS, cls=OpenCommand, named=_named)
def export(agent: Path, format_: str, output: Path, overwrite: bool, which: str | None) -> None:
    """Write a trained agent in a format that others read.

    AGENT is a run's folder, a checkpoint, an .npz file that this command wrote, the name of a
    released agent, such as champion, or for cage4 the team rules. For hub it is a run's folder.

    Example: export champion --format cage2 --output submission
    """
    if format_ == HUB and not agent.is_dir():
        raise click.BadParameter(
            f"{agent} is no run's folder, which the model card tells of", param_hint="AGENT"
        )
    require_run_folder(which, agent)
    endings = _ENDINGS.get(format_, (output.suffix,))
    if output.suffix not in endings:
        raise click.BadParameter(
            f"{output}: give a name that ends in {endings[0]}", param_hint="--output"
        )
    try:
        exported, environment = _scripted(agent, format_) or _trained(agent, which)
        if not fills_folder(exported, format_):
            require_writable(output, "--output")
            if output.exists() and not overwrite:
                raise ConfigError(
                    "output", f"{output} exists already: give another name, or --overwrite"
                )
        write = _hub_writer(agent, which) if format_ == HUB else None
        export_policy(exported, environment, format_, output, write)
    except ConfigError as error:
        if error.field_name in ("format", "output"):
            raise
        raise click.BadParameter(f"{agent}: {error.message}", param_hint="AGENT") from None
    click.echo(f"{format_}: {output}")
    if format_ == HUB and output.is_dir():
        click.echo(f"publish it: hf upload USER/NAME {shlex.quote(str(output))}")
    played_by = guests[environment.env_id].played_by if environment.env_id in guests else {}
    if format_ in played_by and output.is_dir():
        place = shlex.quote(str(output.absolute()))
        if needs_of(exported):
            click.echo(f"first: pip install -r {place}/requirements.txt")
        click.echo(f"play it: {played_by[format_].format(output=place)}")
        packed = "export", agent, "--format", format_, "--output", f"{output}.zip"
        click.echo(f"pack it: {own_command(*packed)}")


def _hub_writer(run: Path, which: str | None) -> Export:
    from workflow_rl.commands.config_words import words_of
    from workflow_rl.reporting.model_card import write_hub
    from workflow_rl.reporting.report_run import read_run
    from workflow_rl.runs.folder import read_config

    try:
        told, config = read_run(run), read_config(run)
        command = shlex.join(["python", "-m", "workflow_rl", *words_of(config)])
    except (UserError, ConfigError) as error:
        raise click.BadParameter(str(error), param_hint="AGENT") from None
    is_scored = which != "latest"  # The scores are of the run's best agent.
    return functools.partial(
        write_hub, told if is_scored else told._replace(evaluation=None), config, command
    )


def _scripted(agent: Path, format_: str) -> tuple[str, Environment] | None:
    for guest in guests.importable():
        env_id = guest.env_id
        is_its = format_ in guest.exports() and str(agent) in scripted_agents(env_id)
        if is_its and not agent.exists():
            return str(agent), make_environment(env_id, {})
    return None


def _trained(agent: Path, which: str | None) -> tuple[Exported, Environment]:
    from workflow_rl.runs.saved_agent import load_saved

    policy, environment = load_saved(agent, which)
    return policy.parameters, environment
