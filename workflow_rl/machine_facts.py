"""Describe the machine, the packages, and the kernels that the libraries are held to."""

import functools
import math
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflow_rl import portable

CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return the number of cores that this process may run on: those that it is bound to, or as
    many as its container's quota of processor time keeps busy, rounded up."""
    every = os.cpu_count() or 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every
    with suppress(OSError, ValueError):  # There are no control groups, or they are told otherwise.
        cores = min([cores, *map(math.ceil, _quotas(*CGROUPS))])
    return max(1, cores)


def _quotas(groups_file: Path, root: Path) -> Iterator[float]:
    for line in groups_file.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mounts = ("cpu", controllers) if "cpu" in controllers.split(",") else ()
        for mount in mounts if controllers else ("", "unified"):  # Version 1, or version 2.
            # A container may see a path that is the host's: what is not there is skipped.
            inner = root / mount / path.strip("/")
            for group in (inner, *inner.parents):
                for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
                    with suppress(OSError, ValueError, ZeroDivisionError):  # It may say "max".
                        numbers = " ".join((group / name).read_text() for name in names).split()
                        quota = float(numbers[0]) / float(numbers[1])
                        yield from [quota] * (quota > 0)


@functools.cache
def package_version(name: str) -> str:
    """Return the version of an installed distribution, or "unknown"."""
    from importlib.metadata import PackageNotFoundError, version  # It takes 10 ms to import.

    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def environment() -> dict[str, str | int]:
    """Return the processor, the usable cores, and the versions of Python and the main packages."""
    packages = ("csle-cyborg", "numpy", "torch")
    return {
        "processor": processor(),
        "cores": usable_cores(),
        "python": platform.python_version(),
        **{name.replace("-", "_"): package_version(name) for name in packages},
    }


def machine() -> dict[str, Any]:
    """Return all that a run's numbers may depend on.

    Besides `environment`, this is the version of the C library, the kernels that NumPy and torch
    use, and the variables that hold the libraries to those kernels.
    """
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
