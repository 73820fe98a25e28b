"""The process of a worker: its start, its end, and what is forbidden in a worker."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import connection, current_process, parent_process
from multiprocessing.connection import Connection
from typing import Any

from workflow_rl.collection.messages import STOP_SIGNALS, Command, Numbered, Request
from workflow_rl.life import show_life_in
from workflow_rl.terminal import LenientStream

_is_worker = False


def worker_main(
    pipe: Connection,
    life: Any,
    pickled_make_envs: bytes,
    n_envs: int,
    step_delay: float,
    traced: bool,
    variables: Mapping[str, str],
) -> None:
    """Make envs, then answer the requests from the pipe, until a request is CLOSE.

    The process ends at once when the main process ends. life: a Life in shared memory.
    variables: the main process's environment variables now; the fork server's are older. See
    `Worker` for the other arguments.
    """
    global _is_worker
    os.environ.clear()
    os.environ.update(variables)
    _die_with_main_process()
    _is_worker = True
    show_life_in(life)
    sys.stdout, sys.stderr = LenientStream(sys.stdout), LenientStream(sys.stderr)
    # The garbage collector must not visit shared objects, because a visit copies their memory.
    gc.freeze()
    from workflow_rl.collection.worker import Worker  # The main process does not need this module.

    worker = Worker(n_envs, step_delay, traced)
    request = Request(Command.START, pickled_make_envs)
    own_pid, number, n_sent = os.getpid(), 0, 0

    def send(message: Any) -> None:
        nonlocal n_sent
        if os.getpid() != own_pid:
            os._exit(0)
        pipe.send(Numbered(number, n_sent + 1, message))
        n_sent += 1  # A message that cannot be pickled is not counted.

    worker.send = send
    # A process that an environment forks must not use the pipe, even if it returns to this loop.
    os.register_at_fork(after_in_child=pipe.close)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # The main process is gone.
        while True:
            for message in worker.messages(request):
                send(message)
            if worker.failure is not None:
                raise SystemExit(1)
            if request.command is Command.CLOSE:
                return
            request = pipe.recv()
            number += 1


def is_worker() -> bool:
    return _is_worker


def require_no_worker(what: str) -> None:
    """Raise RuntimeError in a worker. what: the beginning of the message."""
    if _is_worker:
        raise RuntimeError(
            f"{what} in a worker. If a script trains on an environment of its own module, which "
            'workers import, its calls have to stand under `if __name__ == "__main__":`'
        )


def _die_with_main_process() -> None:
    # Terminals and schedulers signal every process of a run. Only the main process handles signals.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None
    # The worker has its own process group, so that an environment's processes end with the worker.
    os.setpgrp()
    current_process().daemon = False  # Environments may start processes.

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="watch main process", daemon=True).start()
