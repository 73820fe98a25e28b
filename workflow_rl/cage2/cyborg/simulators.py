"""The simulators of CAGE Challenge 2 (Scenario 2) by name. Each is imported when it is made.

Only this room imports CybORG, and it never imports torch, so that worker processes stay small.
"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import NamedTuple

from workflow_rl.cage2.cyborg.stock import UPSTREAM_COMMIT, stock_simulator, upstream_simulator
from workflow_rl.cage2.interface import SIMULATORS, Simulator
from workflow_rl.runs.machine import package_version


def make_simulator(name: str, max_steps: int, own_red: type | None = None) -> Simulator:
    """Return one of SIMULATORS, for episodes of at most max_steps steps.

    own_red: a CybORG agent's class, which is then the only red agent, OWN_RED. Raises ValueError.
    """
    if name not in SIMULATORS:
        raise ValueError(f"simulator={name!r}: choose one of {', '.join(SIMULATORS)}")
    if own_red is not None:
        return _simulator_with(own_red, name)
    if name == "cyborg-upstream":
        return upstream_simulator()
    if name == "cyborg-stock":
        return stock_simulator()
    if name == "compiled":
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        return CompiledSimulator(max_steps)
    from workflow_rl.cage2.cyborg.speedups import SpedUpSimulator

    return SpedUpSimulator()


def _simulator_with(own_red: type, name: str) -> Simulator:
    if name == "compiled":
        raise ValueError(
            f"red_agent={own_red.__name__}: the simulator compiled plays its own red agents alone; "
            "give simulator='cyborg'"
        )
    if name == "cyborg":
        module = importlib.import_module("workflow_rl.cage2.cyborg.own_red")
        sped_up: Simulator = module.OwnRedSimulator(own_red)
        return sped_up
    simulator = upstream_simulator() if name == "cyborg-upstream" else stock_simulator()
    simulator.play_against(own_red)
    return simulator


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
    """Return the package behind one of `SIMULATORS`; "unknown" for what is unknown."""
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
