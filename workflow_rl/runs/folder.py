"""The folder a run leaves: config, metrics, checkpoints, TensorBoard events, plot, summary."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import fcntl
import fnmatch
import json
import logging
import math
import os
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from workflow_rl.agents.algorithm import Series
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import UserError
from workflow_rl.machine_facts import machine
from workflow_rl.output_files import (
    NOT_OURS,
    appending,
    make_folder,
    no_link,
    read_text,
    remove_own,
    remove_unfinished,
    replacing,
    require_no_links,
    require_numbers,
    write_text,
)
from workflow_rl.runs.checkpoint import MEMORY_FOLDER, Checkpoint, save_checkpoint, writing_of
from workflow_rl.runs.config import CAME_FROM, TrainConfig
from workflow_rl.runs.event_file import EventFile
from workflow_rl.runs.metrics import METRICS as METRICS
from workflow_rl.runs.metrics import columns
from workflow_rl.runs.metrics import return_columns as return_columns
from workflow_rl.runs.run_record import (
    N_UPDATES,
    POPULATION_FILE,
    RECORD_FILE,
    RunRecord,
    read_record,
)
from workflow_rl.runs.saved_config import flattened

if TYPE_CHECKING:
    from workflow_rl.runs.several_policies import PopulationRecord

NEEDED = frozenset(("update", "episodes", "env_steps", "wall_seconds", "return_mean"))
"""Columns without which nothing can be drawn nor gone on with."""
_log = logging.getLogger(__name__)
MOST_OF_CONFIG, MOST_OF_METRICS, MOST_OF_ID = 2**20, 2**30, 100
"""Bytes; a larger file is not one of ours."""

KEPT_FOLDER = "kept"
RUN_FILE = "run_id"
"""By which a folder and its checkpoints know each other; locked while a process trains there."""
DIVERGED_FILE = "diverged.npz"
"""The batch that could not be learned from."""
_BEGINNING = (
    *(RUN_FILE, RECORD_FILE, "config.json", "metrics.csv", "summary.json", MEMORY_FOLDER),
    *("events.out.tfevents.*", ".*.writing"),
)
"""What a run leaves that is stopped before its first checkpoint."""
_WRITTEN = (
    *(
        *_BEGINNING,
        DIVERGED_FILE,
        "checkpoint.safetensors",
        "best.safetensors",
        KEPT_FOLDER,
        "learning_curve.png",
    ),
)


class NotWrittenError(RuntimeError):
    """What a run leaves could not be written, as on a full disk; what was saved before is kept."""


def make_run_folder(mode: str, label: str, root: Path = Path("runs")) -> Path:
    """Make `runs/<time>-<mode>-<label>`, with a number behind it if it is taken.

    Raises UserError.
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
            raise UserError(f"{path} cannot be made: {error.strerror}") from None


class RunDir:
    """Opens a run's files for writing, alone; a context manager.

    resumed: the checkpoint in the folder that the run goes on from; the rows of later updates are
    dropped. None starts a run, in a folder new or empty, or of a run that ended before its first
    checkpoint. Raises UserError; what it refuses it leaves as it is. After that everything raises
    NotWrittenError.
    """

    def __init__(self, path: Path, config: TrainConfig, resumed: Checkpoint | None = None) -> None:
        self.path = path
        try:
            require_no_links(*(path / name for name in _WRITTEN))
        except ValueError as error:
            raise UserError(str(error)) from None
        if resumed is not None:
            read_metrics(path)  # A folder without any is not a run's.
        try:
            path.mkdir(parents=True, exist_ok=True)
            if resumed is None:
                self._require_unused()
            if not os.access(path, os.W_OK):
                raise PermissionError(13, "it is not writable")
            self._lock = locked(path)
        except OSError as error:
            raise UserError(f"{path} cannot be used: {error.strerror}") from None
        try:
            if resumed is None:
                self._require_unused()  # Another process may have begun in it meanwhile.
            remove_unfinished(path)
            self.run_id = self._identified(resumed)
            logged = 0 if resumed is None else resumed.training.logged_updates
            rows = [] if resumed is None else read_metrics(path)
            rows = [row for row in rows if row["update"] <= logged]
            last = int(rows[-1]["update"]) if rows else 0
            if last < logged:
                lost = f"{last + 1} to {logged}"
                _log.warning("%s has lost the rows of updates %s", path / "metrics.csv", lost)
            # The user's own algorithm may have other columns now. Those that were stay.
            self._write_metrics(
                rows, list(dict.fromkeys([*(rows[0] if rows else ()), *columns(config)]))
            )
            self._events = EventFile(path, config.flat(), None if resumed is None else logged + 1)
            self._memory = (resumed and resumed.memory) or []
            self._record = None
            if resumed is None:
                self._record = RunRecord(machines=[machine()], config=config.to_save())
                self._record.write(path / RECORD_FILE)
            else:
                self._record_machine()
            self._came_from = self._origins(config, resumed)
            self._put_config(config)
            # It is not finished any more. A full disk has refused the files before this.
            remove_own(path / "summary.json")
        except OSError as error:
            with suppress(OSError):  # Of what is still to be written.
                self._lock.close()
            raise UserError(f"{path} cannot be used: {error.strerror}") from None
        except UserError:
            self._lock.close()
            raise

    def __enter__(self) -> RunDir:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish writing. May be called again."""
        with suppress(OSError):  # What could not be written has been reported.
            self._metrics_file.close()
        self._events.close()
        self._lock.close()

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """The path of `name` in the folder, to write it. Raises NotWrittenError for OSError."""
        path = self.path / name
        try:
            yield path
        except OSError as error:
            raise NotWrittenError(f"{path} cannot be written: {error.strerror}") from error

    def _require_unused(self) -> None:
        names = {entry.name for entry in self.path.iterdir()}
        begun = {name for pattern in _BEGINNING for name in fnmatch.filter(names, pattern)}
        has_rows = "metrics.csv" in names and bool(read_metrics(self.path))
        if names and (RUN_FILE not in names or names > begun or has_rows or is_finished(self.path)):
            how = "or go on with --resume (in Python resume=True)"
            if RUN_FILE in names and "checkpoint.safetensors" not in names:
                how = "for the run in it has no checkpoint.safetensors to go on from"
            raise UserError(f"{self.path} is not empty: choose another folder, {how}")

    def _identified(self, resumed: Checkpoint | None) -> str:
        """The run's id, by which its folder and its checkpoints know each other."""
        run_id = self._lock.read(MOST_OF_ID).strip()
        if resumed is not None:
            if resumed.run_id and run_id and resumed.run_id != run_id:
                raise UserError(
                    f"{self.path / 'checkpoint.safetensors'} is of another run than the rest of "
                    "the folder: put its own back"
                )
            self._require_latest(resumed)
        if not run_id:
            run_id = (resumed and resumed.run_id) or uuid.uuid4().hex
            self._lock.write(run_id + "\n")
            self._lock.flush()
        return run_id

    def _require_latest(self, resumed: Checkpoint) -> None:
        """Another process may have gone on with it before this one had the folder."""
        path = self.path / "checkpoint.safetensors"
        if resumed.written is not None and path.exists() and writing_of(path) != resumed.written:
            raise UserError(
                f"{self.path} has gone on meanwhile in another process: give the command again"
            )

    def _record_machine(self) -> None:
        """If it is another than the run was on before."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            record, here = read_record(self.path / RECORD_FILE), machine()
            if record.machines[-1] != here:
                record.machines.append(here)
                record.write(self.path / RECORD_FILE)

    def _write_metrics(self, before: Sequence[Mapping[str, float]], names: Sequence[str]) -> None:
        with replacing(self.path / "metrics.csv", newline="") as file:
            rows = csv.DictWriter(file, names, restval=math.nan)
            rows.writeheader()
            rows.writerows(before)
        self._metrics_file = appending(self.path / "metrics.csv", newline="")
        self._csv = csv.DictWriter(self._metrics_file, names, restval=math.nan)

    def log(self, row: Mapping[str, float]) -> None:
        """Add one update's metrics, one value for each column."""
        with self.writing("metrics.csv"):
            self._csv.writerow(row)
            self._metrics_file.flush()
        scalars = {name: value for name, value in row.items() if name != "update"}
        with self.writing("TensorBoard's events"):
            self._events.add_scalars(scalars, int(row["update"]))

    def log_of_hook(self, name: str, value: float, update: int) -> None:
        """Add a number of the user's own to the events."""
        with self.writing("TensorBoard's events"):
            self._events.add_scalars({name: float(value)}, update, "own")

    def write_config(self, config: TrainConfig) -> None:
        """What the run goes on with."""
        with self.writing("config.json"):
            self._put_config(config)

    def _put_config(self, config: TrainConfig) -> None:
        content = {**config.to_save(), CAME_FROM: dict(sorted(self._came_from.items()))}
        write_text(self.path / "config.json", json.dumps(content, indent=2) + "\n")

    def _origins(self, config: TrainConfig, resumed: Checkpoint | None) -> dict[str, str]:
        """Return where the config's values came from: of a run that goes on, what its folder says,
        and "option" for what is asked anew."""
        if resumed is None:
            return config.origins()
        was, now = flattened(resumed.config), config.flat()
        known: dict[str, str] = {}
        with suppress(*NOT_OURS):
            content = json.loads(read_text(self.path / "config.json", MOST_OF_CONFIG))
            known = {
                name: str(content[CAME_FROM][name]) for name in now.keys() & content[CAME_FROM]
            }
        return known | {name: "option" for name in now if now[name] != was.get(name)}

    def end_record(self) -> None:
        """What comes now does not follow from what the run began with."""
        self._record = None

    def record_weights(self, digest: str, init_from: bool = False) -> None:
        """Keep the digest of the weights that the run begins with, then of those after its first
        updates; later ones change nothing, nor any of a run that was resumed.

        init_from: whether they are another run's.
        """
        if self._record is not None and len(self._record.weights) <= N_UPDATES:
            self._record.init_from |= init_from
            self._record.weights.append(digest)
            with self.writing(RECORD_FILE) as path:
                self._record.write(path)

    def save(
        self, name: str, checkpoint: Checkpoint, memories: Mapping[str, Series] | None = None
    ) -> None:
        """Write `name`: "checkpoint.safetensors", "best.safetensors" or a `kept_name`.

        The checkpoint gets the id of this run. memories: what the agent remembers, which is kept
        beside the latest checkpoint.
        """
        checkpoint = dataclasses.replace(checkpoint, run_id=self.run_id)
        if memories:
            from workflow_rl.runs import replay_files  # Few agents remember anything.

            with self.writing(MEMORY_FOLDER) as folder:
                parts = replay_files.write(folder, memories, self._memory)
            checkpoint = dataclasses.replace(checkpoint, memory=parts)
        with self.writing(name) as path:
            if path.parent != self.path:
                make_folder(path.parent)
            save_checkpoint(path, checkpoint)
        if memories:
            self._memory = parts
            with self.writing(MEMORY_FOLDER) as folder:
                replay_files.remove_others(folder, self._memory)

    def save_batch(self, trajectories: Sequence[Trajectory]) -> None:
        """Write DIVERGED_FILE: what could not be learned from, the episodes one after another."""
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(trajectory, name) for trajectory in trajectories])
            for name in ("obs", "action", "reward", "log_prob")
        }
        arrays["last_obs"] = np.stack([trajectory.last_obs for trajectory in trajectories])
        arrays["length"] = np.array([trajectory.length for trajectory in trajectories])
        with self.writing(DIVERGED_FILE) as path, replacing(path, "wb") as file:
            np.savez(file, **arrays)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json, of a run that ends here, finished or not."""
        with self.writing("summary.json") as path:
            write_text(path, json.dumps(summary, indent=2) + "\n")


def locked(path: Path, name: str = RUN_FILE) -> IO[str]:
    """The folder's file of this name, nobody else's until it is closed or this process ends.

    Raises UserError.
    """
    try:
        file = os.fdopen(no_link(str(path / name), os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+")
    except OSError as error:
        raise UserError(f"{path} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UserError(f"{path} is in use: another process is training in it") from None
    file.seek(0)
    return file


def population_record(path: Path) -> PopulationRecord | None:
    """Return what a folder says of its several policies; None for a run. Raises UserError."""
    if not _is_population(path):
        return None
    from workflow_rl.runs.several_policies import read_population

    return read_population(path)


def runs_in(*paths: Path) -> list[Path]:
    """Return the folders of the runs in these folders: each is a run, or holds several policies.

    Raises UserError.
    """
    folders: list[Path] = []
    for path in paths:
        record = population_record(path)
        folders += [path] if record is None else record.folders(path)
    return folders


def population_of(run: Path) -> Path | None:
    """Return the folder of the several policies of which a run is one; None for another run."""
    above = run.resolve().parent
    return above if _is_population(above) else None


def can_go_on(path: Path) -> bool:
    """Return whether a folder has a run, or several policies, that can be resumed."""
    return _is_population(path) or (path / "checkpoint.safetensors").exists()


def _is_population(path: Path) -> bool:
    return (path / POPULATION_FILE).is_file()


def kept_name(update: int) -> str:
    """The file of the checkpoint that is kept after this update."""
    return f"{KEPT_FOLDER}/{update:06}.safetensors"


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """The folders' names, or as much of their paths as tells them apart."""
    whole = [path.absolute() for path in paths]
    if len({path.name for path in whole}) == len(whole):
        return [path.name for path in whole]
    common = os.path.commonpath([path.parent for path in whole])
    return [str(path.relative_to(common)) for path in whole]


def read_config(path: Path) -> TrainConfig:
    """A run's config. Raises UserError."""
    try:
        return TrainConfig.from_dict(json.loads(read_text(path / "config.json", MOST_OF_CONFIG)))
    except FileNotFoundError:
        if not path.exists():
            raise UserError(f"{path} does not exist") from None
        raise UserError(f"{path} is not a run folder: it has no config.json") from None
    except NOT_OURS as error:
        # Which may say what the file has there, whatever its length.
        raise UserError(f"{path / 'config.json'} cannot be read: {str(error)[:300]}") from None


def read_summary(path: Path) -> dict[str, Any]:
    """The summary of a run that has ended, finished or not; of several policies, the best one's.
    Raises UserError."""
    try:
        summary = json.loads(read_text(path / "summary.json", MOST_OF_CONFIG))
        summary = summary["policies"][summary["best_policy"]] if "policies" in summary else summary
        best, skipped = summary.get("best_score"), summary.get("skipped_episodes", [])
        require_numbers(summary["wall_seconds"], 0 if best is None else best, *skipped)
        return {**summary, "skipped_episodes": list(skipped)}
    except KeyError as error:
        raise UserError(f"{path / 'summary.json'} cannot be read: it has no {error}") from None
    except NOT_OURS as error:
        raise UserError(f"{path / 'summary.json'} cannot be read: {error}") from None


def return_at_the_end(path: Path) -> float | None:
    """Return the mean return of a run's last episodes; None if there is no such run."""
    try:
        mean = read_summary(path).get("return_mean_recent")
    except UserError:
        return None
    return mean if isinstance(mean, int | float) else None


def is_finished(path: Path) -> bool:
    """Whether the run in the folder, or those of several policies, came to the end: its summary
    says so. Raises UserError."""
    try:
        summary = json.loads(read_text(path / "summary.json", MOST_OF_CONFIG))
        return bool(summary["finished"])
    except FileNotFoundError:
        return False
    except NOT_OURS as error:
        raise UserError(f"{path / 'summary.json'} cannot be read: {error}") from None


def read_metrics(path: Path) -> list[dict[str, float]]:
    """A run's metrics.csv, one dict an update, complete rows only. Raises UserError."""
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
    if not isinstance(text, str):  # What stands behind the last column.
        raise ValueError("a row has more columns than the heading")
    number = int(text) if text.isdigit() and len(text) < 20 else float(text)
    # Where no episode ended there is no mean return.
    is_missing = name == "return_mean" and math.isnan(number)
    # Returns may be of any size that learning survives.
    limit = sys.float_info.max if name == "return_mean" else 2**63 - 1
    if name in NEEDED and not is_missing and not -limit <= number <= limit:
        raise ValueError(f"{name} is {text:.50}")
    return number
