"""The installed CybORG: package, version and commit."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import NamedTuple

from workflow_rl.cage2.cyborg.simulators import UPSTREAM_COMMIT
from workflow_rl.runs.machine import package_version


class SimulatorVersion(NamedTuple):
    """Name and version of a CybORG package, and the commit of the challenge's repository.

    Scores on different commits cannot be compared. csle-cyborg 0.0.3 plays exactly like 26ce1c1.
    """

    name: str
    version: str
    commit: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} (commit {self.commit})"


def simulator_version(simulator: str) -> SimulatorVersion:
    """Return the package behind one of `simulators.SIMULATORS`; "unknown" for what is unknown."""
    if simulator != "cyborg-upstream":
        return SimulatorVersion("csle-cyborg", package_version("csle-cyborg"), UPSTREAM_COMMIT)
    spec = importlib.util.find_spec("CybORG")
    commit = "unknown"
    if spec is not None and spec.origin is not None:
        answer = subprocess.run(
            ["git", "-C", str(Path(spec.origin).parent), "rev-parse", "--short=7", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
        commit = answer.stdout.strip() or "unknown"
    return SimulatorVersion("CybORG", package_version("CybORG"), commit)
