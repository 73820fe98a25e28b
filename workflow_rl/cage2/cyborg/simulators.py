"""Make a simulator of CAGE Challenge 2 by its name. Only then is the simulator's module imported.

Only this package's modules import CybORG. These modules never import torch: workers stay small."""

import importlib.util
import subprocess
from pathlib import Path
from typing import NamedTuple

from workflow_rl.cage.attackers import Attacker, AttackerError
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.cyborg.stock import (
    CAGE1_COMMIT,
    CAGE2_COMMIT,
    ChallengeSimulator,
    cage1_simulator,
    stock_simulator,
)
from workflow_rl.cage2.red import user_reds
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import PUBLISHED, SIMULATORS, Simulator
from workflow_rl.machine_facts import package_version


def make_simulator(
    name: str, max_steps: int, attacker: Attacker | None = None, scenario: Scenario | None = None
) -> Simulator:
    """Return one of SIMULATORS, or PUBLISHED, for episodes of at most max_steps steps.

    scenario: by default Scenario 2. For a scenario with the rules of CAGE Challenge 1, "cyborg" is
    CAGE Challenge 1's package CybORG.

    attacker: if given, the only red agent, which is not in RED_AGENTS. If one of SIMULATORS cannot
    play this attacker, the other simulator does. Raises ValueError, ScenarioError for a scenario
    with other rules, or AttackerError for an attacker that cannot play."""
    if name not in (*SIMULATORS, PUBLISHED):
        raise ValueError(f"simulator={name!r}: choose one of {', '.join(SIMULATORS)}")
    scenario = scenario or Scenario.scenario2()
    if attacker is not None:
        return _simulator_against(attacker, name, max_steps, scenario)
    if name == "compiled":
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        return CompiledSimulator(max_steps, tables=tables_of(scenario))
    if name == "cyborg" and not scenario.is_cage1:
        from workflow_rl.cage2.cyborg.speedups import SpedUpSimulator

        return SpedUpSimulator(scenario)
    return _published(scenario)


def _published(scenario: Scenario) -> ChallengeSimulator:
    return cage1_simulator(scenario) if scenario.is_cage1 else stock_simulator(scenario)


def _simulator_against(
    attacker: Attacker, name: str, max_steps: int, scenario: Scenario
) -> Simulator:
    red = user_reds.found(attacker, scenario)
    if not user_reds.acts_in_cyborg(red):
        if name == PUBLISHED:
            raise AttackerError(
                f"{attacker.name} does not act as csle-cyborg's agents do: choose the simulator "
                f"{' or '.join(SIMULATORS)}, not {name}"
            )
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        batches = {attacker.name: user_reds.batch_of(red)}
        return CompiledSimulator(max_steps, batches, tables_of(scenario))
    if name != PUBLISHED and not scenario.is_cage1:
        from workflow_rl.cage2.cyborg.cyborg_red import OwnRedSimulator

        return OwnRedSimulator(attacker.name, red, scenario)
    simulator = _published(scenario)
    simulator.play_against(attacker.name, red)
    return simulator


class SimulatorVersion(NamedTuple):
    """Name and version of a CybORG package, and the commit of the challenge that plays alike.

    Scores from different commits cannot be compared. csle-cyborg 0.0.3 plays exactly like commit
    26ce1c1 of CAGE-2's repository."""

    name: str
    version: str
    commit: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} (commit {self.commit})"


def simulator_version(simulator: str, is_cage1: bool = False) -> SimulatorVersion:
    """Return the version of the CybORG package that a simulator of SIMULATORS plays or equals.

    A commit that cannot be found is "unknown". is_cage1: whether the scenario has the rules of CAGE
    Challenge 1."""
    if simulator == "compiled":
        published = SimulatorVersion("CAGE-1's CybORG", "1.2", CAGE1_COMMIT)
        if not is_cage1:
            published = simulator_version("cyborg")
        return published._replace(name=f"compiled code, which plays as {published.name}")
    if not is_cage1:
        return SimulatorVersion("csle-cyborg", package_version("csle-cyborg"), CAGE2_COMMIT)
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
