"""The red agents that Blue can play against: CybORG's classes, trained teams, the library's
attackers, and users' attackers."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.cage.attackers import Attacker, AttackerError, Roster
from workflow_rl.cage4.attackers import PythonReds, red_program
from workflow_rl.cage4.red.red_api import FIRST_KNOWN, RED_TEAM, red_layout
from workflow_rl.cage4.red.scripted import Chosen
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS
from workflow_rl.cage4.scenario.simulator_protocol import RedSideSimulator, StepResult
from workflow_rl.errors import UserError

LIBRARY: Mapping[str, str] = {
    "impact": "workflow_rl.cage4.red.by_hand:ImpactAlone",
    "loud-impact": "workflow_rl.cage4.red.by_hand:LoudImpact",
    "greedy": "workflow_rl.cage4.red.by_hand:Greedy",
    "spread": "workflow_rl.cage4.red.by_hand:Spread",
    "one-zone": "workflow_rl.cage4.red.by_hand:OneZone",
    "quiet": "workflow_rl.cage4.red.by_hand:Quiet",
    "phishing-waiter": "workflow_rl.cage4.red.by_hand:PhishingWaiter",
    "decoy-shy": "workflow_rl.cage4.red.by_hand:DecoyShy",
    "returner": "workflow_rl.cage4.red.by_hand:Returner",
    "timed": "workflow_rl.cage4.red.by_hand:Timed",
    "patient": "workflow_rl.cage4.red.by_hand:Patient",
    "masked": "workflow_rl.cage4.red.by_hand:Disguised",
}
"""The classes of the attackers that were written by hand, by name."""
REDS = Roster(RED_AGENTS, {"library": ",".join(LIBRARY)}, LIBRARY)
_OF_TEAM_SEEDS = 7
"""Part of the seed. `scripted.RandomReds` has 6 there, so that the two draw different numbers."""


class RedTeam(Protocol):
    """A player of the red team in many envs: a `TeamPolicy`, or `PythonReds`."""

    def reset(self, seed: int, env: int = 0) -> None:
        """Begin an episode in an env."""

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> tuple[NDArray[Any], Any]:
        """Return the choices `[M, 6]` in M envs, and a value that the caller ignores. obs: rows of
        `red_layout`, `[M, N_RED_ROW]`."""


def found_reds(attacker: Attacker, simulator: str = "compiled") -> RedTeam | str:
    """Return what plays an attacker that is not one of CybORG's classes. The attacker's module is
    imported.

    If the simulator is cyborg, and the class has the methods of CybORG's agents, return its name.
    Raises AttackerError.
    """
    if attacker.is_path:
        return load_reds(attacker.name)
    if simulator == "cyborg" and _acts_in_cyborg(attacker):
        return attacker.name
    red_program(attacker)
    return PythonReds(attacker)


def _acts_in_cyborg(attacker: Attacker) -> bool:
    from workflow_rl.cage4.cyborg.private_cyborg import published_cyborg

    if attacker.given is not None or attacker.place:
        return False
    try:
        return hasattr(published_cyborg().user_class(attacker.name), "get_action")
    except Exception as error:  # A user's module may raise anything.
        raise AttackerError(f"{attacker.name}: {in_one_line(error)}") from error


def load_reds(name: str) -> TeamPolicy:
    """Load a trained red team from a run folder or policy file. Raises AttackerError.

    The team draws its actions from its policies' distributions, as in training.
    """
    from workflow_rl.runs.saved_agent import load_saved

    if not Path(name).exists():
        raise AttackerError(f"{name}: there is no such folder or policy file of a trained red team")
    try:
        policy, environment = load_saved(Path(name), greedy=False)
    except UserError as error:
        raise AttackerError(str(error)) from error
    if not isinstance(policy, TeamPolicy) or policy.parameters.layout != red_layout():
        raise AttackerError(f"{name} was trained on {environment.env_id}: it is no red team")
    return policy


class OneTeam:
    """A red team that plays one episode at a time, with the methods of `scripted.RandomReds`."""

    def __init__(self, team: RedTeam) -> None:
        self._team = copy.deepcopy(team)

    def reset(self, seed: int) -> None:
        self._team.reset(seed)

    def act(self, row: NDArray[np.uint8], sessions: Sequence[Sequence[int]] = ()) -> Chosen:
        choices, _ = self._team.act(row[None])
        first_sessions = [FIRST_KNOWN] * len(RED_TEAM)
        return choices[0].tolist(), first_sessions


class WithReds:
    """A simulator in which a red team plays. Other attributes are the simulator's.

    If `reset` gets no seed, the team's seed is drawn. The drawn seeds follow from the last seed
    that the caller gave.
    """

    def __init__(self, simulator: RedSideSimulator, team: RedTeam) -> None:
        self._simulator, self._reds = simulator, OneTeam(team)
        self._seeds = np.random.default_rng()

    def __getattr__(self, name: str) -> Any:
        # copy and pickle read attributes before `_simulator` is set, which must not recurse.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._simulator, name)

    def start_stream(self, seed: int) -> None:
        self._simulator.start_stream(seed)
        self._seeds = _seeds_of(seed)

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        observations = self._simulator.reset(seed)
        if seed is None:
            seed = int(self._seeds.integers(2**63))
        else:
            self._seeds = _seeds_of(seed)
        self._reds.reset(seed)
        return observations

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        choices, sessions = self._reds.act(self._simulator.red_row())
        self._simulator.choose(choices, sessions)
        return self._simulator.step(actions, messages)


def _seeds_of(seed: int) -> np.random.Generator:
    """Return a generator of the team's seeds, with other numbers than the simulator's generator."""
    return np.random.default_rng([seed, _OF_TEAM_SEEDS])
