"""What all workers need. The process that workers are forked from imports this module last.

That process also becomes the parent of what a worker's environments have started and left behind.
"""

from __future__ import annotations

import ctypes
import gc
import warnings
from contextlib import suppress

import workflow_rl.collection.worker
import workflow_rl.collection.worker_process  # noqa: F401

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl."""

with suppress(AttributeError, OSError):  # Other systems lack it.
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
# Such processes are none that the fork server has forked.
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
gc.collect()
