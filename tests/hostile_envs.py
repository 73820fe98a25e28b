"""Forty environments that hurt whoever makes and plays them, and their harmless twin. No torch."""

import argparse
import atexit
import builtins
import ctypes
import gc
import importlib
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

    when: str
    do: Callable[[], Any]
    is_refused: bool = False
    hangs: bool = False


def doing(name: str) -> type[Harmless]:
    """The environment that does a deed, whose module has been imported."""
    when, do, *_ = DEEDS[name]

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


def sets_variables() -> None:
    os.environ.update(OMP_NUM_THREADS="7", NPY_DISABLE_CPU_FEATURES="AVX2", HOME="/nowhere")


def closes_output() -> None:
    """It reads the process's arguments as its own, too."""
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    sys.argv[:] = ["hostile", "--help"]


def of_torch(name: str, *values: Any) -> Callable[[], Any]:
    """Return what imports torch, and calls this function of torch's."""
    return lambda: getattr(importlib.import_module("torch"), name)(*values)


def sets_torch_dtype() -> None:
    torch = importlib.import_module("torch")
    torch.set_default_dtype(torch.float64)


def seeds_generators() -> None:
    random.seed(1)
    np.random.seed(1)
    of_torch("manual_seed", 1)()


def takes_over_logging() -> None:
    logging.disable(logging.CRITICAL)
    logging.getLogger("workflow_rl").propagate = False


def pins_process() -> None:
    """On one core, at the lowest priority."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.nice(19)


def replaces_open() -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise PermissionError("no files here")

    builtins.open = refuse


def stops_clock() -> None:
    time.time = time.monotonic = time.perf_counter = lambda: 0.0


def ignores_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def starts_orphan() -> None:
    subprocess.run(["sh", "-c", f"setsid {' '.join(SLEEP)} >/dev/null 2>&1 &"], check=True)


def raises_when_closed() -> None:
    raise OSError("there is nothing to close")


def reads_command_line() -> None:
    """Of whose options it knows none."""
    argparse.ArgumentParser().parse_args(["--no-such-option"])


def interrupts() -> None:
    """It pretends that somebody has pressed Ctrl-C."""
    raise KeyboardInterrupt


def forbids_opening() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    os.open(os.devnull, os.O_RDONLY)


def hangs() -> None:
    time.sleep(86397)


def hangs_at_step() -> None:
    """No signal ends it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


DEEDS = {
    "changes_directory": Deed("make", lambda: os.chdir("/")),
    "clears_variables": Deed("reset", lambda: os.environ.clear()),
    "sets_variables": Deed("make", sets_variables),
    "empties_path": Deed("step", lambda: sys.path.clear()),
    "closes_output": Deed("make", closes_output),
    "forbids_files": Deed("make", lambda: os.umask(0o777)),
    "sets_torch_dtype": Deed("make", sets_torch_dtype),
    "sets_torch_threads": Deed("reset", of_torch("set_num_threads", 7)),
    "switches_gradients_off": Deed("make", of_torch("set_grad_enabled", False)),
    "sets_torch_device": Deed("import", of_torch("set_default_device", "meta")),
    "seeds_generators": Deed("step", seeds_generators),
    "raises_for_numbers": Deed("make", lambda: np.seterr(all="raise")),
    "raises_for_warnings": Deed("make", lambda: warnings.simplefilter("error")),
    "takes_over_logging": Deed("make", takes_over_logging),
    "stops_collecting": Deed("make", gc.disable),
    "sets_locale": Deed("make", lambda: locale.setlocale(locale.LC_ALL, "C")),
    "sets_start_method": Deed(
        "make", lambda: multiprocessing.set_start_method("spawn", force=True)
    ),
    "pins_process": Deed("make", pins_process),
    "replaces_open": Deed("make", replaces_open),
    "stops_clock": Deed("make", stops_clock),
    "ignores_signals": Deed("make", ignores_signals),
    "starts_thread": Deed(
        "make", lambda: threading.Thread(target=time.sleep, args=(86397,)).start()
    ),
    "starts_process": Deed("reset", lambda: subprocess.Popen(SLEEP)),
    "starts_session": Deed("make", lambda: subprocess.Popen(SLEEP, start_new_session=True)),
    "starts_orphan": Deed("make", starts_orphan),
    "exits_at_exit": Deed("make", lambda: atexit.register(os._exit, 9)),
    "raises_when_closed": Deed("close", raises_when_closed, is_refused=True),
    "reads_command_line": Deed("import", reads_command_line, is_refused=True),
    "exits_at_import": Deed("import", lambda: sys.exit("good bye"), is_refused=True),
    "exits": Deed("reset", sys.exit, is_refused=True),
    "ends_process": Deed("make", lambda: os._exit(0), is_refused=True),
    "interrupts": Deed("step", interrupts, is_refused=True),
    "kills_process": Deed("step", lambda: os.kill(os.getpid(), signal.SIGKILL), is_refused=True),
    "reads_no_memory": Deed("reset", lambda: ctypes.string_at(0), is_refused=True),
    # Among them the way to the main process.
    "closes_files": Deed("reset", lambda: os.closerange(3, 1000), is_refused=True),
    "forbids_opening": Deed("make", forbids_opening, is_refused=True),
    "hangs_at_import": Deed("import", hangs, is_refused=True, hangs=True),
    "hangs_at_reset": Deed("reset", hangs, is_refused=True, hangs=True),
    "hangs_at_step": Deed("step", hangs_at_step, is_refused=True, hangs=True),
    "hangs_when_closed": Deed("close", hangs, is_refused=True, hangs=True),
}
