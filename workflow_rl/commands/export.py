"""The command `export`: a trained agent in a format that others read."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from agents.policies.numpy_policy import PolicyParameters
from workflow_rl.commands.options import PATH
from workflow_rl.environments.environment import (
    Environment,
    InvalidEnvironmentError,
    guests,
)
from workflow_rl.output_files import replacing, require_writable

Write = Callable[[PolicyParameters, Environment, Path], None]


def write_onnx(policy: PolicyParameters, environment: Environment, path: Path) -> None:
    """The actor's network as an ONNX model, for batches of any size."""
    try:
        import onnxscript  # noqa: F401 (torch's exporter needs it, and says so at length)
    except ModuleNotFoundError:
        raise click.UsageError("--format onnx needs more: pip install '.[onnx]'") from None
    import torch

    actor, obs = _actor_and_example(policy)
    # It warns of torchvision's absence, among others.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            actor,
            (obs,),
            input_names=["obs"],
            output_names=["outputs"],
            dynamic_shapes={"obs": {0: torch.export.Dim("batch")}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    with replacing(path, "wb") as file:
        file.write(program.model_proto.SerializeToString())


def write_torchscript(policy: PolicyParameters, environment: Environment, path: Path) -> None:
    """The actor's network as a TorchScript module, for batches of any size."""
    import torch

    actor, obs = _actor_and_example(policy)
    with replacing(path, "wb") as file:
        torch.jit.save(torch.jit.trace(actor, obs), file)


def _actor_and_example(policy: PolicyParameters) -> tuple[Any, Any]:
    import torch

    from agents.policies.torch_actor import TorchActor

    actor = TorchActor(policy).eval().requires_grad_(False)
    return actor, torch.zeros(2, len(policy.weights[0]))


def write_policy(policy: PolicyParameters, environment: Environment, path: Path) -> None:
    """The policy as this package's own file of plain arrays, which `evaluate` takes like a run."""
    from agents.policies.policy_file import save_policy

    about = {"env": environment.env_id, "env_args": dict(environment.args)}
    with replacing(path, "wb") as file:
        save_policy(file, policy, about)


FORMATS: dict[str, Write] = {
    "onnx": write_onnx,
    "torchscript": write_torchscript,
    "npz": write_policy,
}
"""Those that write one file. Guests have more, which write a folder."""


@click.command()
@click.argument("agent", type=PATH)
@click.option(
    "--format",
    "format_",
    required=True,
    type=click.Choice([*FORMATS, *(name for g in guests.values() for name in g.exports())]),
    help="onnx and torchscript: the network alone, from what the policy sees to logits "
    "or means, of sac and mbpo before they are squashed, and log deviations. npz: the policy "
    "as plain arrays, for this package. cage2: a folder "
    "to hand in to the challenge, whose agent needs NumPy alone.",
)
@click.option(
    "--output",
    type=PATH,
    required=True,
    metavar="PATH",
    help="The file, or for cage2 the new or empty folder, to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@click.option("--which", type=click.Choice(["best", "latest"]),
              help="Checkpoint of a run folder.  [default: best if there is one]")  # fmt: skip
def export(agent: Path, format_: str, output: Path, overwrite: bool, which: str | None) -> None:
    """Write a trained agent in a format that others read.

    AGENT is a run's folder, a checkpoint, an .npz that this command wrote, or the name of a
    released agent, such as champion.

    Example: export champion --format cage2 --output submission
    """
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.saved_agent import load_saved

    if which is not None and not agent.is_dir():
        raise click.UsageError(f"--which {which} goes with a run folder: give one")
    if format_ == "npz" and output.suffix != ".npz":
        raise click.BadParameter(f"{output}: give a name that ends in .npz", param_hint="--output")
    try:
        policy, environment = load_saved(agent, which)
        if format_ in FORMATS:
            require_writable(output, "--output")
            if output.exists() and not overwrite:
                raise click.BadParameter(
                    f"{output} is there already: give another name, or --overwrite",
                    param_hint="--output",
                )
            FORMATS[format_](policy.parameters, environment, output)
        else:
            _export_as_guest(policy.parameters, environment, format_, output)
    except CheckpointError as error:
        raise click.UsageError(str(error)) from None
    except InvalidEnvironmentError as error:
        raise click.BadParameter(f"{agent}: {error}", param_hint="AGENT") from None
    click.echo(f"{format_}: {output}")


def _export_as_guest(
    policy: PolicyParameters, environment: Environment, format_: str, folder: Path
) -> None:
    guest = guests.get(environment.env_id)
    if guest is None or format_ not in guest.exports():
        raise click.BadParameter(
            f"{format_} is not for agents of {environment.env_id}", param_hint="--format"
        )
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise click.BadParameter(
                f"{folder} is not empty: give a new or empty folder", param_hint="--output"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-") as temporary:
            # All of it or nothing.
            guest.exports()[format_](policy, environment, Path(temporary) / "whole")
            (Path(temporary) / "whole").replace(folder)
    except OSError as error:
        raise click.BadParameter(
            f"{folder} cannot be written: {error.strerror}", param_hint="--output"
        ) from None
