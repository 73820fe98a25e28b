"""What a run was made with: packages, machine, and what the libraries were held to."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from workflow_rl import portable
from workflow_rl.runs.config import usable_cores


def package_version(name: str) -> str:
    """An installed distribution's version, "unknown" if there is none of that name."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def environment() -> dict[str, str | int]:
    """Processor, cores this process may use, Python's version and those of packages that matter."""

    packages = ("csle-cyborg", "numpy", "torch")
    return {
        "processor": processor(),
        "cores": usable_cores(),
        "python": platform.python_version(),
        **{name.replace("-", "_"): package_version(name) for name in packages},
    }


def machine() -> dict[str, Any]:
    """All that a run's numbers may depend on: `environment`, the C library's version, the kernels
    that NumPy and torch use, and the variables that hold them to those."""
    import torch

    return {
        **environment(),
        "numba": package_version("numba"),
        "libc": " ".join(platform.libc_ver()),
        "numpy_kernels": portable.numpy_kernels(),
        "torch_kernels": torch.backends.cpu.get_cpu_capability(),
        "pins": {name: os.environ.get(name) for name in portable.PINS},
        "departures": portable.departures(),
    }
