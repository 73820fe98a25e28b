"""Make libraries compute equal numbers on every processor, by the same kernels everywhere.

NumPy, torch, OpenBLAS and MKL have several versions of their kernels, and use the widest version
that the processor supports. Each version adds in a different order, so its rounding differs. After
a few updates, all weights differ. This module holds the libraries to AVX2 with FMA, which Intel's
processors have had since 2013 and AMD's since 2017.

Importing the module sets variables for this process and its subprocesses. Libraries read the
variables when they are loaded, so `workflow_rl` imports this module before other modules.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any

PINS = {
    "ATEN_CPU_CAPABILITY": "avx2",  # torch's own kernels
    "MKL_CBWR": "COMPATIBLE",  # torch's LAPACK, whose AVX2 differs on processors not Intel's
    "ONEDNN_MAX_CPU_ISA": "AVX2",  # torch's convolutions
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",  # NumPy's own kernels
    "OPENBLAS_CORETYPE": "Haswell",  # NumPy's matrix products,
    "OPENBLAS_NUM_THREADS": "1",  # which are split by the number of cores
}
"""Environment variables and their values. A variable that the user has set stays unchanged."""

NATIVE = "WORKFLOW_RL_NATIVE"
"""The variable that asks for this processor's own kernels instead."""


def _pin() -> tuple[str, ...]:
    """Set PINS. Return the libraries that were loaded before, which do not follow PINS."""
    missing = {name: value for name, value in PINS.items() if name not in os.environ}
    early = tuple(name for name in ("numpy", "torch") if missing and name in sys.modules)
    os.environ.update(missing)  # `is_supported` may load NumPy, which reads them.
    if not is_supported():
        # torch would use kernels that the processor lacks, and end by an illegal instruction.
        for name in missing:
            del os.environ[name]
    return early


def load_elsewhere(module: str) -> None:
    """Import a library that would read a stranger's settings in the current folder, and could run
    code or programs that they name. Raises ImportError."""
    with contextlib.chdir("/"):
        importlib.import_module(module)


def is_native() -> bool:
    """Return whether the user wants this processor's own kernels."""
    return os.environ.get(NATIVE, "") not in ("", "0")


def numpy_kernels() -> str:
    """Return the widest instructions that NumPy uses here: X86_V3 is AVX2 with FMA."""
    import numpy as np

    extensions: Any = np.show_config(mode="dicts")["SIMD Extensions"]
    return str([*extensions["baseline"], *extensions.get("found", [])][-1])


def is_supported() -> bool:
    """Return whether the processor has AVX2 with FMA. Outside Linux, NumPy is imported to tell."""
    try:
        with open("/proc/cpuinfo") as processors:
            flags = next((line for line in processors if line.startswith("flags")), "")
    except OSError:
        return numpy_kernels().startswith(("X86_V3", "X86_V4", "AVX512"))
    return {"avx2", "fma"} <= {*flags.split()}


def departures() -> list[str]:
    """Return the reasons for which weights may differ from another processor's, one per line."""
    if is_native():
        return [f"{NATIVE} is set"]
    other = [
        f"{name} is {os.environ.get(name)!r}, not {value!r}"
        for name, value in PINS.items()
        if os.environ.get(name) != value
    ]
    return other + [f"{name} was imported before workflow_rl" for name in loaded_early]


loaded_early = () if is_native() else _pin()
