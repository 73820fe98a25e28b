"""The files that a run writes in its folder: config, metrics, checkpoints, events, summary."""

import csv
import dataclasses
import fcntl
import fnmatch
import itertools
import logging
import math
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from workflow_rl.agents.algorithm import Series
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import UserError
from workflow_rl.machine_facts import machine
from workflow_rl.output_files import (
    NOT_OURS,
    appending,
    make_folder,
    new_file,
    no_link,
    read_json,
    remove_own,
    remove_unfinished,
    replacing,
    require_no_links,
    write_json,
)
from workflow_rl.runs.checkpoint import MEMORY_FOLDER, Checkpoint, save_checkpoint, writing_of
from workflow_rl.runs.config import CAME_FROM, TrainConfig, flattened
from workflow_rl.runs.folder import (
    DIVERGED_FILE,
    KEPT_FOLDER,
    N_UPDATES,
    RECORD_FILE,
    RunRecord,
    is_finished,
    read_metrics,
    read_record,
)
from workflow_rl.runs.metrics import columns, group_of

RUN_FILE = "run_id"
"""The file with the run's id, which checkpoints repeat. A training process locks this file."""
MOST_OF_ID = 100
"""The most bytes of RUN_FILE that are read."""
_BEGINNING = (
    *(RUN_FILE, RECORD_FILE, "config.json", "metrics.csv", "summary.json", MEMORY_FOLDER),
    *("events.out.tfevents.*", ".*.writing"),
)
"""The files of a run that was stopped before its first checkpoint."""
_WRITTEN = (
    *_BEGINNING,
    *("checkpoint.safetensors", "best.safetensors", KEPT_FOLDER),
    *(DIVERGED_FILE, "learning_curve.png"),
)

_log = logging.getLogger(__name__)
_number = itertools.count()


class NotWrittenError(RuntimeError):
    """A run's file could not be written, such as on a full disk. Earlier files remain."""


def make_run_folder(mode: str, label: str, root: Path = Path("runs")) -> Path:
    """Make `runs/<time>-<mode>-<label>`, with a number at the end if the folder exists. Raises
    UserError."""
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
    """Opens a run's files for writing, and locks the folder. A context manager.

    resumed: the folder's checkpoint that the run continues from. The rows of later updates are
    dropped. None starts a run in a new or empty folder, or in the folder of a run that ended before
    its first checkpoint. The constructor raises UserError, and does not change a folder that it
    refuses. After that, all methods raise NotWrittenError.
    """

    def __init__(self, path: Path, config: TrainConfig, resumed: Checkpoint | None = None) -> None:
        self.path = path
        try:
            require_no_links(*(path / name for name in _WRITTEN))
        except ValueError as error:
            raise UserError(str(error)) from None
        if resumed is not None:
            read_metrics(path)  # Raises UserError for a folder that is not a run's.
        with _usable(path):
            path.mkdir(parents=True, exist_ok=True)
            if resumed is None:
                self._require_unused()
            if not os.access(path, os.W_OK):
                raise PermissionError(13, "it is not writable")
            self._lock = locked(path)
            try:
                self._open(config, resumed)
            except (OSError, UserError):
                with suppress(OSError):  # The close may fail to write the rest.
                    self._lock.close()
                raise

    def _open(self, config: TrainConfig, resumed: Checkpoint | None) -> None:
        """Open the files. Before the lock, another process may have changed the folder."""
        if resumed is None:
            self._require_unused()
        remove_unfinished(self.path)
        self.run_id = self._identified(resumed)
        rows = [] if resumed is None else self._rows_until(resumed.training.logged_updates)
        # The user's own algorithm may have other columns now. The old columns remain.
        before = rows[0] if rows else {}
        unlogged = (resumed and resumed.training.unlogged) or {}
        self._write_metrics(rows, list(dict.fromkeys([*before, *columns(config), *unlogged])))
        next_update = None if resumed is None else resumed.training.logged_updates + 1
        self._events = EventFile(self.path, config.flat(), next_update)
        self._memory = (resumed and resumed.memory) or []
        self._record = None
        if resumed is None:
            self._record = RunRecord(machines=[machine()], config=config.to_save())
            self._record.write(self.path / RECORD_FILE)
        else:  # The run was on another machine before, if its last machine is not this one.
            with suppress(FileNotFoundError, ValueError):
                record, here = read_record(self.path / RECORD_FILE), machine()
                if record.machines[-1] != here:
                    record.machines.append(here)
                    record.write(self.path / RECORD_FILE)
        self._came_from = self._origins(config, resumed)
        self._put_config(config)
        # The run is not finished any more. On a full disk, an earlier write has failed.
        remove_own(self.path / "summary.json")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish writing. May be called again."""
        with suppress(OSError):  # A failed write was reported already.
            self._metrics_file.close()
        self._events.close()
        self._lock.close()

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield the path of the file `name`. An OSError in the context becomes NotWrittenError."""
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
        """Return the run's id, which is in the folder and in its checkpoints. Raise UserError if
        another process has continued the run before this process had the lock."""
        run_id = self._lock.read(MOST_OF_ID).strip()
        if resumed is not None:
            if resumed.run_id and run_id and resumed.run_id != run_id:
                raise UserError(
                    f"{self.path / 'checkpoint.safetensors'} is of another run than the rest of "
                    "the folder: put its own back"
                )
            latest = self.path / "checkpoint.safetensors"
            is_read = resumed.written is not None and latest.exists()
            if is_read and writing_of(latest) != resumed.written:
                raise UserError(
                    f"{self.path} has gone on meanwhile in another process: give the command again"
                )
        if not run_id:
            run_id = (resumed and resumed.run_id) or uuid.uuid4().hex
            self._lock.write(run_id + "\n")
            self._lock.flush()
        return run_id

    def _rows_until(self, update: int) -> list[dict[str, float]]:
        """Return the rows of metrics up to this update, and log which rows are missing."""
        rows = [row for row in read_metrics(self.path) if row["update"] <= update]
        last = int(rows[-1]["update"]) if rows else 0
        if last < update:
            lost = f"{last + 1} to {update}"
            _log.warning("%s has lost the rows of updates %s", self.path / "metrics.csv", lost)
        return rows

    def _write_metrics(self, before: Sequence[Mapping[str, float]], names: Sequence[str]) -> None:
        with replacing(self.path / "metrics.csv", newline="") as file:
            rows = csv.DictWriter(file, names, restval=math.nan)
            rows.writeheader()
            rows.writerows(before)
        self._metrics_file = appending(self.path / "metrics.csv", newline="")
        self._csv = csv.DictWriter(self._metrics_file, names, restval=math.nan)

    def log(self, row: Mapping[str, float]) -> None:
        with self.writing("metrics.csv"):
            self._csv.writerow(row)
            self._metrics_file.flush()
        scalars = {name: value for name, value in row.items() if name != "update"}
        with self.writing("TensorBoard's events"):
            self._events.add_scalars(scalars, int(row["update"]))

    def log_of_hook(self, name: str, value: float, update: int) -> None:
        with self.writing("TensorBoard's events"):
            self._events.add_scalars({name: float(value)}, update, "own")

    def write_config(self, config: TrainConfig) -> None:
        with self.writing("config.json"):
            self._put_config(config)

    def _put_config(self, config: TrainConfig) -> None:
        content = {**config.to_save(), CAME_FROM: dict(sorted(self._came_from.items()))}
        write_json(self.path / "config.json", content)

    def _origins(self, config: TrainConfig, resumed: Checkpoint | None) -> dict[str, str]:
        """Return the origins of the config's values. For a resumed run, they are the origins in its
        folder, and "option" for changed values."""
        if resumed is None:
            return config.origins()
        was, now = flattened(resumed.config), config.flat()
        known: dict[str, str] = {}
        with suppress(*NOT_OURS):
            content = read_json(self.path / "config.json")
            known = {
                name: str(content[CAME_FROM][name]) for name in now.keys() & content[CAME_FROM]
            }
        return known | {name: "option" for name in now if now[name] != was.get(name)}

    def end_record(self) -> None:
        """Record no further weights, because they do not follow from the run's start alone."""
        self._record = None

    def record_weights(self, digest: str, init_from: bool = False) -> None:
        """Record the digest of the run's first weights, then of the weights after its first
        updates. Later calls, and calls of a resumed run, do nothing.

        init_from: whether the weights are another run's.
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

        The checkpoint gets this run's id. memories: the steps that the agent remembers, which are
        written beside the latest checkpoint.
        """
        checkpoint = dataclasses.replace(checkpoint, run_id=self.run_id)
        if memories:
            from workflow_rl.runs import replay_files  # Few agents have a memory.

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
        """Write DIVERGED_FILE: the batch that could not be learned from, episode after episode."""
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(trajectory, name) for trajectory in trajectories])
            for name in ("obs", "action", "reward", "log_prob")
        }
        arrays["last_obs"] = np.stack([trajectory.last_obs for trajectory in trajectories])
        arrays["length"] = np.array([trajectory.length for trajectory in trajectories])
        with self.writing(DIVERGED_FILE) as path, replacing(path, "wb") as file:
            np.savez(file, **arrays)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        with self.writing("summary.json") as path:
            write_json(path, summary)


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be used: {error.strerror}") from None


def locked(path: Path, name: str = RUN_FILE) -> IO[str]:
    """Return the folder's file of this name, locked until it is closed or this process ends. Raises
    UserError."""
    with _usable(path):
        file = os.fdopen(no_link(str(path / name), os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UserError(f"{path} is in use: another process is training in it") from None
    file.seek(0)
    return file


class EventFile:
    """A new file of events in a run's folder. Every call writes at once, and raises OSError.

    TensorBoard's own writer writes in a thread, and the run would not see that thread's errors.

    first_update: the first update that a resumed run logs. TensorBoard drops the events of the
    folder's other files from that update on.
    """

    def __init__(
        self, folder: Path, hyperparameters: Mapping[str, Any], first_update: int | None = None
    ) -> None:
        # These imports are slow, and only processes that train need them.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        name = f"{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}.{next(_number):06}"
        path = folder / f"events.out.tfevents.{name}"
        self._file = new_file(path)
        self._records = RecordWriter(self._file)
        try:
            self._write(file_version="brain.Event:2")
            if first_update is None:
                plain = {
                    name: value if isinstance(value, bool | int | float) else str(value)
                    for name, value in hyperparameters.items()
                }
                self._write(step=0, summary=hparams_pb(plain))
            else:
                self._write(step=first_update, session_log=SessionLog(status=SessionLog.START))
        except OSError:
            self.close()
            remove_own(path)
            raise

    def add_scalars(
        self, values: Mapping[str, float], update: int, group: str | None = None
    ) -> None:
        """Write the values of one update. group: TensorBoard shows the values in this group."""
        scalars = [
            self._summary.Value(tag=f"{group or group_of(name)}/{name}", simple_value=value)
            for name, value in values.items()
        ]
        self._write(step=update, summary=self._summary(value=scalars))

    def _write(self, **content: Any) -> None:
        event = self._event(wall_time=time.time(), **content)
        self._records.write(event.SerializeToString())
        self._records.flush()

    def close(self) -> None:
        with suppress(OSError):  # `_write` has already raised this error.
            self._file.close()
