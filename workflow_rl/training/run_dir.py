"""The folder a run leaves: config, metrics, checkpoints, TensorBoard events, plot, summary."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from workflow_rl.output_files import replacing, write_text
from workflow_rl.training.checkpoint import Checkpoint, save_checkpoint
from workflow_rl.training.config import TrainConfig

METRICS = (
    "update",
    "episodes",
    "env_steps",
    "wall_seconds",
    "collect_seconds",
    "update_seconds",
    "learner_idle_seconds",
    "worker_idle_seconds",
    "seconds_per_update",
    "eps",
    "episodes_per_second",
    "env_steps_per_second",
    "worker_utilisation",
    "worker_utilisation_run",
    "policy_lag_min",
    "policy_lag_mean",
    "policy_lag_max",
    "stale_fraction",
    "dropped_steps",
    "queue_length",
    "return_mean",
    "return_std",
    "episode_length_mean",
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "clip_fraction",
    "explained_variance",
    "learning_rate",
    "eval_return_mean",
    "workers_restarted",
)


class RunDirError(ValueError):
    """A run folder that cannot be used as asked."""


def make_run_folder(mode: str, label: str, root: Path = Path("runs")) -> Path:
    """Make `runs/<time>-<mode>-<label>`, with a number behind it if it is taken.

    Raises RunDirError.
    """
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{mode}-{label}"
    path, number = root / name, 2
    while True:
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            path, number = root / f"{name}-{number}", number + 1
        except OSError as error:
            raise RunDirError(f"{path} cannot be made: {error.strerror}") from None


class RunDir:
    """Opens a run's files for writing; a context manager.

    resumed_at: updates the run has done already; the rows of later ones, logged after the
    checkpoint that it goes on from, are dropped. None starts a run, in a folder new or empty.
    Raises RunDirError.
    """

    def __init__(self, path: Path, config: TrainConfig, resumed_at: int | None = None) -> None:
        self.path = path
        self.metrics: list[dict[str, float]] = []
        if resumed_at is not None:
            self.metrics = [row for row in read_metrics(path) if row["update"] <= resumed_at]
        try:
            path.mkdir(parents=True, exist_ok=True)
            if resumed_at is None and any(path.iterdir()):
                raise RunDirError(
                    f"{path} is not empty: choose another folder, or go on with --resume"
                )
            if not os.access(path, os.W_OK):
                raise PermissionError(13, "it is not writable")
            # It is not finished any more.
            (path / "summary.json").unlink(missing_ok=True)
            write_text(path / "config.json", json.dumps(config.to_dict(), indent=2) + "\n")
            self._write_metrics()
        except OSError as error:
            raise RunDirError(f"{path} cannot be used: {error.strerror}") from None
        from torch.utils.tensorboard import SummaryWriter  # takes a second to import

        self._events = SummaryWriter(
            str(path), purge_step=None if resumed_at is None else resumed_at + 1
        )

    def __enter__(self) -> RunDir:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish writing. May be called again."""
        self._metrics_file.close()
        self._events.close()

    def _write_metrics(self) -> None:
        with replacing(self.path / "metrics.csv", newline="") as file:
            rows = csv.DictWriter(file, METRICS)
            rows.writeheader()
            rows.writerows(self.metrics)
        self._metrics_file = (self.path / "metrics.csv").open("a", newline="")
        self._csv = csv.DictWriter(self._metrics_file, METRICS)

    def log(self, row: Mapping[str, float]) -> None:
        """Add one update's metrics, one value for each of METRICS."""
        self.metrics.append(dict(row))
        self._csv.writerow(row)
        self._metrics_file.flush()
        for name, value in row.items():
            if name != "update":
                self._events.add_scalar(name, value, int(row["update"]))

    def save(self, name: str, checkpoint: Checkpoint) -> None:
        """Write `name`: "checkpoint.pt", "best.pt" or a `kept_name`."""
        (self.path / name).parent.mkdir(exist_ok=True)
        save_checkpoint(self.path / name, checkpoint)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json; a run that has one is finished."""
        write_text(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")


def kept_name(update: int) -> str:
    """The file of the checkpoint that is kept after this update."""
    return f"kept/{update:06}.pt"


def read_config(path: Path) -> TrainConfig:
    """A run's config. Raises RunDirError."""
    try:
        return TrainConfig.from_dict(json.loads((path / "config.json").read_text()))
    except FileNotFoundError:
        raise RunDirError(f"{path} is not a run folder: it has no config.json") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunDirError(f"{path / 'config.json'} cannot be read: {error}") from None


def read_metrics(path: Path) -> list[dict[str, float]]:
    """A run's metrics.csv, one dict an update, complete rows only. Raises RunDirError."""
    try:
        with (path / "metrics.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if None not in row.values()]
        return [{name: _number(value) for name, value in row.items()} for row in rows]
    except FileNotFoundError:
        raise RunDirError(f"{path} is not a run folder: it has no metrics.csv") from None
    except (OSError, ValueError) as error:
        raise RunDirError(f"{path / 'metrics.csv'} cannot be read: {error}") from None


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)
