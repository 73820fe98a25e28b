"""The command that replays a run's first updates: does this machine reproduce its weights?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.collection.cluster_address import NONE
from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import SAVED
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import RECORD_FILE, RunRecord, read_record
from workflow_rl.terminal import printable

if TYPE_CHECKING:
    from workflow_rl.runs.checkpoint import Checkpoint


@click.command(cls=ClearCommand)
@click.argument("run", type=SAVED)
@click.option("--init-from", type=SAVED, metavar="RUN",
              help="The agent with which RUN began, if it had --init-from.")  # fmt: skip
def verify(run: Path, init_from: Path | None) -> None:
    """Say whether this machine reproduces a run's weights.

    RUN is the folder of a run. Its first updates are repeated, from the config that it began with,
    and the weights are compared bit for bit with the recorded ones. Nothing in RUN changes. The
    exit code is 1 if the weights differ.

    Example: verify runs/mixed
    """
    from workflow_rl.machine_facts import machine
    from workflow_rl.runs.copy_teacher import require_same_teacher
    from workflow_rl.runs.folder import runs_in
    from workflow_rl.runs.read_checkpoint import load_checkpoint
    from workflow_rl.runs.saved_agent import saved_path

    try:
        first, *_ = runs_in(run)
        if first != run:
            raise ValueError(f"it has several policies: name one, such as {first}")
        record = read_record(run / RECORD_FILE)
        config = config_of(record)
        if config.teacher is not None:
            require_same_teacher(run, config.teacher)
        if record.init_from != (init_from is not None):
            raise ValueError(
                "it began with another run's agent: name that with --init-from"
                if record.init_from
                else "it did not begin with another run's agent: leave --init-from out"
            )
        begin_with = None if init_from is None else load_checkpoint(saved_path(init_from))
        weights = replayed(config, len(record.weights) - 1, begin_with, quiet=False)
        if len(weights) < len(record.weights):
            raise ValueError(f"its config ends before {RECORD_FILE} does")
    except (FileNotFoundError, NotADirectoryError):
        raise click.UsageError(
            f"{run} has no {RECORD_FILE}: it is no run's folder, or its run is of a version that "
            "wrote none"
        ) from None
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{run} cannot be verified: {error}") from None
    for update, (recorded, here) in enumerate(zip(record.weights, weights, strict=True)):
        when = f"after update {update}" if update else "at the beginning"
        there = printable(recorded[:12])
        same = "identical" if recorded == here else f"{here[:12]} here, {there} recorded"
        click.echo(f"weights {when}: {same}")
    began_on, here_now = record.machines[0], machine()
    for name in differing(began_on, here_now):
        there = printable(began_on.get(name))
        click.echo(f"{name}: {here_now.get(name)} here, {there} there")
    if weights != record.weights:
        click.echo(f"This machine does not reproduce {run}.")
        raise SystemExit(1)
    click.echo(f"This machine reproduces {run}.")


def config_of(record: RunRecord) -> TrainConfig:
    """Return the config to replay. Raises ValueError for a run that promises no weights."""
    try:
        config = TrainConfig.to_train(record.config, names_cluster=True)  # It joins none.
    except ConfigError:
        raise
    except (KeyError, TypeError, ValueError):
        raise ValueError("its config is one of another version of the package") from None
    if config.async_rl and config.batching != "exact-lag":
        raise ValueError(
            "what the run learned from depended on the workers' speed (--batching "
            f"{config.batching}), so no machine repeats it"
        )
    if config.device != "cpu":
        raise ValueError(
            f"it was trained with --device {config.device}: only runs on the CPU promise the same "
            "weights elsewhere"
        )
    if len(record.weights) < 2:
        raise ValueError("it ended before its first update")
    # The number of workers makes no difference.
    return config.changed(n_workers=None, envs_per_worker=None, cluster=NONE)


def replayed(
    config: TrainConfig, n_updates: int, begin_with: Checkpoint | None = None, quiet: bool = True
) -> list[str]:
    """Return digests of the weights before the first update and after each update. Raises
    ConfigError, UserError, and what ends a training."""
    from workflow_rl.runs.execute import warn_if_results_vary
    from workflow_rl.runs.loop import train_policy

    warn_if_results_vary(config)
    with tempfile.TemporaryDirectory() as folder:
        train_policy(config, Path(folder), None, begin_with, quiet=quiet, last_update=n_updates)
        return read_record(Path(folder) / RECORD_FILE).weights


def differing(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Return the names of what differs between two machines, as from `machine.machine`."""
    return [name for name in here if here[name] != there.get(name)]
