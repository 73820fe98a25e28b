"""What a measurement was made with: packages, machine."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from workflow_rl.training.config import usable_cores


def package_version(name: str) -> str:
    """An installed distribution's version, "unknown" if there is none of that name."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def environment() -> dict[str, str | int]:
    """Cores this process may use, Python's version and those of the packages that matter."""

    packages = ("csle-cyborg", "numpy", "torch")
    return {
        "cores": usable_cores(),
        "python": platform.python_version(),
        **{name.replace("-", "_"): package_version(name) for name in packages},
    }
