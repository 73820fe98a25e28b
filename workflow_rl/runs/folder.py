"""Reads a run's folder: its config, metrics, summary, and record of machines and first weights.
Also finds the runs in folders of several runs.

`run_dir` writes a run's folder.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from workflow_rl.errors import UserError
from workflow_rl.output_files import read_json, read_text, reading, require_numbers, write_json
from workflow_rl.runs.config import POPULATION_FILE, TrainConfig

if TYPE_CHECKING:
    from workflow_rl.runs.several_policies import PopulationRecord

RECORD_FILE = "machine.json"
N_UPDATES = 3
"""The number of first updates after which the weights are recorded."""


class RunRecord(BaseModel):
    """The machines and first weights of a run. Another machine's weights are compared with these.

    machines: the first machine, then the other machines on which the run was resumed, see
    `machine.machine`. config: TrainConfig.to_save() at the start. init_from: whether the run began
    with another run's agent. weights: digests of the weights, before the first update and after
    each of the first N_UPDATES updates.
    """

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)

    machines: Annotated[list[dict[str, Any]], Field(min_length=1)]
    config: dict[str, Any]
    init_from: bool = False
    weights: Annotated[list[str], Field(max_length=N_UPDATES + 1)] = []

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump())


def read_record(path: Path) -> RunRecord:
    """Return a run's record. Raises OSError, and ValueError that names the file."""
    try:
        return RunRecord(**read_json(path))
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{path.name} is not a record of this package") from None


def begins_with_another(folder: Path) -> bool:
    """Return whether the run in a folder began with another run's agent; False if unknown."""
    try:
        return read_record(folder / RECORD_FILE).init_from
    except (OSError, ValueError):
        return False


def weights_digest(network: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a network's tensors and their names, in the state_dict's order."""
    content = hashlib.sha256()
    for name, tensor in network.items():
        content.update(f"{name} {tuple(tensor.shape)} ".encode())
        content.update(tensor.detach().cpu().numpy().tobytes())
    return content.hexdigest()


NEEDED = frozenset(("update", "episodes", "env_steps", "wall_seconds", "return_mean"))
"""The columns that a learning curve or a resume needs."""
MOST_OF_METRICS = 2**30
"""The largest metrics.csv that is read, in bytes."""
KEPT_FOLDER = "kept"
DIVERGED_FILE = "diverged.npz"
"""The file of a batch that could not be learned from."""


def population_record(path: Path) -> PopulationRecord | None:
    """Return the record in a folder of several policies; None for one run. Raises UserError."""
    if not _is_population(path):
        return None
    from workflow_rl.runs.several_policies import read_population

    return read_population(path)


def runs_in(*paths: Path) -> list[Path]:
    """Return the folders of all runs in these folders of a run or of several policies. Raises
    UserError."""
    folders: list[Path] = []
    for path in paths:
        record = population_record(path)
        folders += [path] if record is None else record.folders(path)
    return folders


def population_of(run: Path) -> Path | None:
    """Return the folder of several policies that a run belongs to, or None."""
    above = run.resolve().parent
    return above if _is_population(above) else None


def can_go_on(path: Path) -> bool:
    """Return whether a folder has a run, or several policies, that can be resumed."""
    return _is_population(path) or (path / "checkpoint.safetensors").exists()


def _is_population(path: Path) -> bool:
    return (path / POPULATION_FILE).is_file()


def kept_name(update: int) -> str:
    return f"{KEPT_FOLDER}/{update:06}.safetensors"


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return the folders' names, or the parts of their paths that distinguish the folders."""
    whole = [path.absolute() for path in paths]
    if len({path.name for path in whole}) == len(whole):
        return [path.name for path in whole]
    common = os.path.commonpath([path.parent for path in whole])
    return [str(path.relative_to(common)) for path in whole]


def read_config(path: Path) -> TrainConfig:
    """Return a run's config. Raises UserError."""
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if not (path / "config.json").exists():
        raise UserError(f"{path} is not a run folder: it has no config.json")
    with reading(path / "config.json"):
        return TrainConfig.from_dict(read_json(path / "config.json"))


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary of a run that has ended, finished or not. For several policies, return the
    best policy's summary. Raises UserError."""
    with reading(path / "summary.json"):
        summary = read_json(path / "summary.json")
        summary = summary["policies"][summary["best_policy"]] if "policies" in summary else summary
        best, skipped = summary.get("best_score"), summary.get("skipped_episodes", [])
        require_numbers(summary["wall_seconds"], 0 if best is None else best, *skipped)
        return {**summary, "skipped_episodes": list(skipped)}


def return_at_the_end(path: Path) -> float | None:
    """Return the mean return of a run's last episodes; None if there is no run, or the run learned
    from another reward than the environment's."""
    try:
        if read_config(path).reward_from:
            return None
        mean = read_summary(path).get("return_mean_recent")
    except UserError:
        return None
    return mean if isinstance(mean, int | float) else None


def is_finished(path: Path) -> bool:
    """Return whether the folder's summary says that its run, or its several policies, are finished.
    Raises UserError."""
    if not (path / "summary.json").exists():
        return False
    with reading(path / "summary.json"):
        return bool(read_json(path / "summary.json")["finished"])


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the complete rows of a run's metrics.csv, a dict for each update. Raises UserError."""
    try:
        reader = csv.DictReader(read_text(path / "metrics.csv", MOST_OF_METRICS).splitlines())
        if missing := NEEDED.difference(reader.fieldnames or ()):
            raise ValueError(f"it has no column {min(missing)}")
        rows = [row for row in reader if None not in row.values()]
        return [{name: _number(name, value) for name, value in row.items()} for row in rows]
    except FileNotFoundError:
        lacks = "it has no metrics.csv" if path.exists() else "there is none"
        raise UserError(
            f"{path} is not a run folder: {lacks}. Give the folder of a training; evaluate and "
            "replay also take a file or a released agent"
        ) from None
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path / 'metrics.csv'} cannot be read: {error}") from None


def _number(name: str, text: Any) -> float:
    if not isinstance(text, str):  # The values after the last column are a list.
        raise ValueError("a row has more columns than the heading")
    number = int(text) if text.isdigit() and len(text) < 20 else float(text)
    # If no episode ended, there is no mean return.
    is_missing = name == "return_mean" and math.isnan(number)
    # Returns may have any finite size.
    limit = sys.float_info.max if name == "return_mean" else 2**63 - 1
    if name in NEEDED and not is_missing and not -limit <= number <= limit:
        raise ValueError(f"{name} is {text:.50}")
    return number
