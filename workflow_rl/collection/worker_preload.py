"""The imports of all workers. The fork server of the workers imports this module last.

The fork server also becomes the parent of processes that an ended worker's environments started.
"""

import ctypes
import gc
import os
import warnings
from contextlib import suppress

import workflow_rl.collection.worker
import workflow_rl.collection.worker_process  # noqa: F401
from workflow_rl.portable import load_elsewhere

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl."""

with suppress(AttributeError, OSError):  # Other systems have no prctl.
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
# A user's environment may import these libraries.
if os.path.exists("matplotlibrc"):
    load_elsewhere("matplotlib")
if os.path.exists(".numba_config.yaml"):
    with suppress(ValueError):  # NUMBA_DISABLE_JIT is only for the user's environment.
        load_elsewhere("workflow_rl.jit")
# The fork server warns when a process ends that it did not fork.
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
gc.collect()
