"""Commands in processes of their own, and the processes of a run, seen from outside."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]


def ended(*command: object, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. A Python finds the checkout from any folder."""
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )


def said_by_python(*words: object, cwd: Path = ROOT, **variables: str) -> str:
    """Run a Python, which has to end without an error. Return what it prints."""
    result = ended(sys.executable, *words, cwd=cwd, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout


def start(*words: object) -> subprocess.Popen[bytes]:
    """Start a command of the package in the checkout."""
    command = [sys.executable, "-m", "workflow_rl", *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)


def descendants(pid: int | None = None) -> list[psutil.Process]:
    """All processes that the given one, or this one, has started, and theirs."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def workers_of(pid: int | None = None) -> list[psutil.Process]:
    """A run's descendants but the fork server and the resource tracker, which have children or
    never work."""
    own = os.getpid() if pid is None else pid
    workers = []
    for child in descendants(pid):
        try:
            if child.ppid() != own and child.status() != psutil.STATUS_ZOMBIE:
                workers.append(child)
        except psutil.NoSuchProcess:
            continue
    return workers


def survivors(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that still live after so many seconds. A zombie does not."""

    def lives(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    psutil.wait_procs([process for process in processes if lives(process)], seconds)
    return [process for process in processes if lives(process)]
