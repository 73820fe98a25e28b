"""Faults of the main process: a run through the command line that is ended somehow, and resumed."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.processes import survivors
from workflow_rl.runs.folder import read_metrics

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 120.0


@dataclass(frozen=True)
class Moment:
    """`delay` seconds after the process has done so many updates."""

    updates: int
    delay: float


class Life(NamedTuple):
    """How a process ended. was_struck: it was not over before its moment came."""

    returncode: int
    errors: str
    was_struck: bool


Strike = Callable[[subprocess.Popen[bytes], Path], None]
"""What happens to a process that trains in this folder."""


class Run:
    """A run in `path` and the processes that train it, one after another.

    arguments: of the command line that begins it. prefix: of every command. record: see `runs`.
    """

    def __init__(self, path: Path, arguments: list[str], prefix: tuple[str, ...]) -> None:
        self.path, self.record = path, path.with_suffix(".learned")
        self._arguments, self._prefix = arguments, prefix

    def live(self, moment: Moment | None = None, strike: Strike | None = None) -> Life:
        """Begin the run, or go on with it, until it ends. Nothing survives it for 5 seconds."""
        if (self.path / "checkpoint.safetensors").exists():
            arguments = [self._arguments[0], "--resume", str(self.path)]
        else:
            arguments = [*self._arguments, "--run-dir", str(self.path)]
        command = [*self._prefix, sys.executable, "-m", "tests.faults.runs", str(self.record)]
        errors_path = self.record.with_suffix(".errors")
        with errors_path.open("wb") as errors:
            process = subprocess.Popen(
                [*command, *arguments, "--quiet"],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            try:
                was_struck = False
                if strike is not None and moment is not None:
                    was_struck = self._wait_for(process, moment)
                    if was_struck:
                        strike(process, self.path)
                process.wait(DEADLINE_SECONDS)
                assert not survivors(of_session(process.pid), 5)
            finally:
                for left in of_session(process.pid):
                    left.kill()
                process.wait()
        return Life(process.returncode, errors_path.read_text(), was_struck)

    def _wait_for(self, process: subprocess.Popen[bytes], moment: Moment) -> bool:
        done_before = len(self._rows())
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.path.exists() or len(self._rows()) < done_before + moment.updates:
            assert time.monotonic() < deadline
            if process.poll() is not None:
                return False
            time.sleep(0.01)
        try:
            process.wait(moment.delay)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _rows(self) -> list[dict[str, float]]:
        return read_metrics(self.path) if (self.path / "metrics.csv").exists() else []


def of_session(session: int) -> list[psutil.Process]:
    """All processes that a session's leader has started, however far removed, and itself."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session:
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def signalled(number: signal.Signals) -> Strike:
    """A signal to the main process; Ctrl-C to all, as a terminal sends it."""

    def strike(process: subprocess.Popen[bytes], path: Path) -> None:
        if process.poll() is None:
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)

    return strike


def file_size_limited(process: subprocess.Popen[bytes], path: Path) -> None:
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))


def not_writable(process: subprocess.Popen[bytes], path: Path) -> None:
    path.chmod(0o555)


def without_override() -> tuple[str, ...] | None:
    """A command's prefix that has permissions bind root too; None where it cannot be done."""
    if os.getuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        return None
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
