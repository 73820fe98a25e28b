"""The red agents that Blue can be played against: CybORG's classes by name, and trained teams."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.cage.attackers import AttackerError, Roster
from workflow_rl.cage4.red.red_api import FIRST_KNOWN, RED_TEAM, red_layout
from workflow_rl.cage4.red.scripted import Chosen
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS
from workflow_rl.cage4.scenario.simulator_protocol import RedSideSimulator, StepResult
from workflow_rl.errors import UserError

REDS = Roster(RED_AGENTS, takes_classes=False)


def load_reds(name: str) -> TeamPolicy:
    """Return a trained red team, by its run folder or policy file. Raises AttackerError.

    The team draws its actions, as in its training.
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


class PolicyReds:
    """A trained red team in one episode at a time, in the form of `red_scripted.RandomReds`."""

    def __init__(self, policy: TeamPolicy) -> None:
        self._policy = copy.deepcopy(policy)

    def reset(self, seed: int) -> None:
        self._policy.reset(seed)

    def act(self, row: NDArray[np.uint8], sessions: Sequence[Sequence[int]] = ()) -> Chosen:
        choices, _ = self._policy.act(row[None])
        return choices[0].tolist(), [FIRST_KNOWN] * len(RED_TEAM)


class WithReds:
    """A simulator whose red agents a trained team plays: all else is as in the simulator.

    In an episode without a seed of its own, the team's seed is drawn.
    """

    def __init__(self, simulator: RedSideSimulator, policy: TeamPolicy) -> None:
        self._simulator, self._reds = simulator, PolicyReds(policy)
        self._seeds = np.random.default_rng()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # A copy has no simulator yet.
            raise AttributeError(name)
        return getattr(self._simulator, name)

    def start_stream(self, seed: int) -> None:
        self._simulator.start_stream(seed)
        self._seeds = _seeds_of(seed)

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        observations = self._simulator.reset(seed)
        if seed is not None:
            self._seeds = _seeds_of(seed)
        self._reds.reset(int(self._seeds.integers(2**63)) if seed is None else seed)
        return observations

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        self._simulator.choose(*self._reds.act(self._simulator.red_row()))
        return self._simulator.step(actions, messages)


def _seeds_of(seed: int) -> np.random.Generator:
    """Return what draws the team's seeds after a seed, apart from the simulator's own numbers."""
    return np.random.default_rng([seed, 7])
