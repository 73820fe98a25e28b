"""The same numbers on every processor: what libraries choose by the processor, chosen for all.

NumPy, torch, OpenBLAS and MKL carry several versions of their kernels and take the widest that the
processor has. Each adds in another order and so rounds otherwise: a few updates later, no weight is
the same. Here all are held to AVX2 with FMA, which Intel's processors have had since 2013 and AMD's
since 2017.

Importing this module does so, for this process and all that it starts. Libraries read the variables
when they are loaded, so `workflow_rl` imports it before everything else.
"""

from __future__ import annotations

import os
import sys
from typing import Any

PINS = {
    "ATEN_CPU_CAPABILITY": "avx2",  # torch's own kernels
    "MKL_CBWR": "COMPATIBLE",  # torch's LAPACK; its AVX2 is another on processors not Intel's
    "ONEDNN_MAX_CPU_ISA": "AVX2",  # torch's convolutions
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",  # NumPy's own kernels
    "OPENBLAS_CORETYPE": "Haswell",  # NumPy's matrix products,
    "OPENBLAS_NUM_THREADS": "1",  # which are split by the number of cores
}
"""Environment variables and their values. What the user has set stays."""

NATIVE = "WORKFLOW_RL_NATIVE"
"""The variable that asks for this processor's own kernels instead."""


def _pin() -> tuple[str, ...]:
    """Sets PINS; returns what was loaded too early to heed them."""
    missing = {name: value for name, value in PINS.items() if name not in os.environ}
    early = tuple(name for name in ("numpy", "torch") if missing and name in sys.modules)
    os.environ.update(missing)  # NumPy, which may be asked now, reads them as it is loaded.
    if not is_supported():
        # torch would take their word and end with an illegal instruction.
        for name in missing:
            del os.environ[name]
    return early


def is_native() -> bool:
    """Whether the user wants this processor's own kernels."""
    return os.environ.get(NATIVE, "") not in ("", "0")


def numpy_kernels() -> str:
    """The widest instructions that NumPy uses here: X86_V3 is AVX2 with FMA."""
    import numpy as np

    extensions: Any = np.show_config(mode="dicts")["SIMD Extensions"]
    return str([*extensions["baseline"], *extensions.get("found", [])][-1])


def is_supported() -> bool:
    """Whether the processor has AVX2 with FMA: Linux tells, or else NumPy, whose import is slow."""
    try:
        with open("/proc/cpuinfo") as processors:
            flags = next((line for line in processors if line.startswith("flags")), "")
    except OSError:
        return numpy_kernels().startswith(("X86_V3", "X86_V4", "AVX512"))
    return {"avx2", "fma"} <= {*flags.split()}


def departures() -> list[str]:
    """Why weights may differ from another processor's, one line each; nothing if they may not."""
    if is_native():
        return [f"{NATIVE} is set"]
    other = [
        f"{name} is {os.environ.get(name)!r}, not {value!r}"
        for name, value in PINS.items()
        if os.environ.get(name) != value
    ]
    return other + [f"{name} was imported before workflow_rl" for name in loaded_early]


loaded_early = () if is_native() else _pin()
