"""The processes of a run, seen from outside."""

from __future__ import annotations

import os

import psutil


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
