"""What a process could find changed after somebody else's code has run in it."""

import builtins
import gc
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import psutil
import torch

from tests.hostile_envs import SLEEP

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def process_state() -> dict[str, Any]:
    """The state of this process, and what hostile environments have started anywhere."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "directory": os.getcwd(),
        "variables": dict(os.environ),
        "path": list(sys.path),
        "arguments": list(sys.argv),
        "output": (sys.stdout, sys.stderr),
        "umask": umask,
        "torch": (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_default_device()),
        "threads of torch": torch.get_num_threads(),
        "random": random.getstate(),
        "NumPy's random": np.random.get_state()[1].tolist(),  # type: ignore[index]
        "NumPy's errors": np.geterr(),
        "warnings": list(warnings.filters),
        "logging": (logging.root.manager.disable, logging.getLogger("workflow_rl").propagate),
        "collector": gc.isenabled(),
        "locale": locale.setlocale(locale.LC_ALL),
        "start method": multiprocessing.get_start_method(),
        "cores": (os.sched_getaffinity(0), os.nice(0)),
        "functions": (builtins.open, time.time, time.monotonic, time.perf_counter),
        "signals": [signal.getsignal(number) for number in SIGNALS],
        "threads": {thread.name for thread in threading.enumerate()},
        "limit": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "processes": sum(
            one.info["cmdline"] == list(SLEEP) for one in psutil.process_iter(["cmdline"])
        ),
    }
