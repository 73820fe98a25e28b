"""Forty environments that hurt whoever makes and plays them, and their harmless twin. No torch.

Each is described by one sentence. It does its deed when it is made, when an episode begins, at a
step, when it is closed, or when its module is imported.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import gc
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

SLEEP = ("sleep", "86397")
"""What environments start: a process that can be found by these words."""


class Harmless(gymnasium.Env[Any, Any]):
    """Its episodes have five steps, and follow from the seed."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        return self._show(), float(action == 1), False, self._steps == 5, {}

    def _show(self) -> Any:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class Deed(NamedTuple):
    """when: "import", "make", "reset", "step" or "close". is_refused: whether the environment
    cannot be used, or else gives what its twin gives. hangs: whether a call does not return."""

    what: str
    do: Callable[[], Any]
    when: str
    is_refused: bool
    hangs: bool


DEEDS: dict[str, Deed] = {}


def deed(
    when: str, what: str, is_refused: bool = False, hangs: bool = False
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def kept(do: Callable[[], Any]) -> Callable[[], Any]:
        DEEDS[do.__name__] = Deed(what, do, when, is_refused, hangs)
        return do

    return kept


def doing(name: str) -> type[Harmless]:
    """The environment that does a deed, whose module has been imported."""
    _, do, when, *_ = DEEDS[name]

    class Doing(Harmless):
        def __init__(self) -> None:
            if when == "make":
                do()

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            if when == "reset":
                do()
            return super().reset(seed=seed, options=options)

        def step(self, action: Any) -> Any:
            if when == "step":
                do()
            return super().step(action)

        def close(self) -> None:
            if when == "close":
                do()

    return Doing


IMPORT_TORCH = (
    *("sets_torch_dtype", "sets_torch_threads", "switches_gradients_off", "sets_torch_device"),
    "seeds_generators",
)


def write_module(folder: Path, name: str) -> str:
    """Write a module of one's own, and return the id of its environment."""
    lines = ["from tests.hostile_envs import DEEDS, doing"]
    if DEEDS[name].when == "import":
        lines.append(f"DEEDS[{name!r}].do()")
    lines.append(f"Env = doing({name!r})")
    (folder / f"hostile_{name}.py").write_text("\n".join(lines) + "\n")
    return f"hostile_{name}:Env"


@deed("make", "It changes the working directory.")
def changes_directory() -> None:
    os.chdir("/")


@deed("reset", "It deletes all environment variables.")
def clears_variables() -> None:
    os.environ.clear()


@deed("make", "It sets environment variables that libraries read.")
def sets_variables() -> None:
    os.environ.update(OMP_NUM_THREADS="7", NPY_DISABLE_CPU_FEATURES="AVX2", HOME="/nowhere")


@deed("step", "It empties the list of folders in which modules are found.")
def empties_path() -> None:
    sys.path.clear()


@deed("make", "It closes what the process prints to, and reads its arguments as its own.")
def closes_output() -> None:
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    sys.argv[:] = ["hostile", "--help"]


@deed("make", "It lets nobody read the files that are made after it.")
def forbids_files() -> None:
    os.umask(0o777)


@deed("make", "It makes torch compute in float64.")
def sets_torch_dtype() -> None:
    import torch

    torch.set_default_dtype(torch.float64)


@deed("reset", "It gives torch seven threads.")
def sets_torch_threads() -> None:
    import torch

    torch.set_num_threads(7)


@deed("make", "It switches torch's gradients off.")
def switches_gradients_off() -> None:
    import torch

    torch.set_grad_enabled(False)


@deed("import", "Its module puts torch's tensors on a device without memory.")
def sets_torch_device() -> None:
    import torch

    torch.set_default_device("meta")


@deed("step", "It seeds all global random generators.")
def seeds_generators() -> None:
    import torch

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@deed("make", "It turns NumPy's warnings into errors.")
def raises_for_numbers() -> None:
    np.seterr(all="raise")


@deed("make", "It turns Python's warnings into errors.")
def raises_for_warnings() -> None:
    warnings.simplefilter("error")


@deed("make", "It switches logging off.")
def takes_over_logging() -> None:
    logging.disable(logging.CRITICAL)
    logging.getLogger("workflow_rl").propagate = False


@deed("make", "It stops the garbage collector.")
def stops_collecting() -> None:
    gc.disable()


@deed("make", "It takes another language's numbers and dates.")
def sets_locale() -> None:
    locale.setlocale(locale.LC_ALL, "C")


@deed("make", "It lets processes start in another way.")
def sets_start_method() -> None:
    multiprocessing.set_start_method("spawn", force=True)


@deed("make", "It keeps the process on one core, at the lowest priority.")
def pins_process() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.nice(19)


@deed("make", "It replaces the function that opens files.")
def replaces_open() -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise PermissionError("no files here")

    builtins.open = refuse


@deed("make", "It stops the clock.")
def stops_clock() -> None:
    time.time = time.monotonic = time.perf_counter = lambda: 0.0


@deed("make", "It ignores the signals that end a process.")
def ignores_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


@deed("make", "It starts a thread that is no daemon, and never ends.")
def starts_thread() -> None:
    threading.Thread(target=time.sleep, args=(86397,)).start()


@deed("reset", "It starts a process.")
def starts_process() -> None:
    subprocess.Popen(SLEEP)


@deed("make", "It starts a process in a session of its own.")
def starts_session() -> None:
    subprocess.Popen(SLEEP, start_new_session=True)


@deed("make", "It starts a process that has no parent any more.")
def starts_orphan() -> None:
    subprocess.run(["sh", "-c", f"setsid {' '.join(SLEEP)} >/dev/null 2>&1 &"], check=True)


@deed("make", "It asks to be called when the process exits, and ends the process then.")
def exits_at_exit() -> None:
    atexit.register(os._exit, 9)


@deed("close", "It raises when it is closed.", is_refused=True)
def raises_when_closed() -> None:
    raise OSError("there is nothing to close")


@deed("import", "Its module reads the command line, of which it knows no option.", is_refused=True)
def reads_command_line() -> None:
    import argparse

    argparse.ArgumentParser().parse_args(["--no-such-option"])


@deed("import", "Its module exits.", is_refused=True)
def exits_at_import() -> None:
    sys.exit("good bye")


@deed("reset", "It exits as if all were well.", is_refused=True)
def exits() -> None:
    sys.exit()


@deed("make", "It ends the process at once.", is_refused=True)
def ends_process() -> None:
    os._exit(0)


@deed("step", "It pretends that somebody has pressed Ctrl-C.", is_refused=True)
def interrupts() -> None:
    raise KeyboardInterrupt


@deed("step", "It kills its process.", is_refused=True)
def kills_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@deed("reset", "It reads memory that is not there.", is_refused=True)
def reads_no_memory() -> None:
    ctypes.string_at(0)


@deed("reset", "It closes all open files, among them the way to the main process.", is_refused=True)
def closes_files() -> None:
    os.closerange(3, 1000)


@deed("make", "It lets nobody open a file any more.", is_refused=True)
def forbids_opening() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    os.open(os.devnull, os.O_RDONLY)


@deed("import", "Its module does not come to its end.", is_refused=True, hangs=True)
def hangs_at_import() -> None:
    time.sleep(86397)


@deed("reset", "Its first episode does not begin.", is_refused=True, hangs=True)
def hangs_at_reset() -> None:
    time.sleep(86397)


@deed("step", "A step does not end, and no signal ends it.", is_refused=True, hangs=True)
def hangs_at_step() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


@deed("close", "It does not come to its end when it is closed.", is_refused=True, hangs=True)
def hangs_when_closed() -> None:
    time.sleep(86397)
