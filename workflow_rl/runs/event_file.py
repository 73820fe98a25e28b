"""TensorBoard's record of a run: its hyperparameters, and scalars by group, name and update."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflow_rl.output_files import new_file, remove_own

_number = itertools.count()

GROUPS = {
    "returns": ("return_", "eval_return", "episode_length", "truncated_"),
    "speed": ("eps", "episodes_per_", "env_steps_per_", "queue_", "worker_util"),
    "time": ("wall_", "collect_", "update_seconds", "learner_", "worker_", "seconds_"),
    "lag": ("policy_lag", "stale_", "dropped_"),
    "run": ("episodes", "env_steps", "workers_", "skipped_"),
}
"""The beginnings of metrics' names, by the group in which TensorBoard shows them."""


def group_of(metric: str) -> str:
    """Return the group of a metric. What an algorithm measures is "learning"."""
    for group, beginnings in GROUPS.items():
        if metric.startswith(beginnings):
            return group
    return "learning"


class EventFile:
    """A new file of events in a run's folder. Every call writes at once, and raises OSError.

    TensorBoard's own writer writes in a thread, and the run would not see that thread's errors.

    first_update: the first update that a resumed run logs. TensorBoard drops the events of the
    folder's other files from that update on.
    """

    def __init__(
        self, folder: Path, hyperparameters: Mapping[str, Any], first_update: int | None = None
    ) -> None:
        # Not at the top of the module: these take a while to import.
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
        """Write the values of one update. group: where all of them are shown."""
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
        """Close the file. A second call does nothing."""
        with suppress(OSError):  # `_write` has raised the error already.
            self._file.close()
