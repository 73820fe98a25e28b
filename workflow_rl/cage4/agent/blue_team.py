"""The interface of a blue team, which plays in N envs at once.

This module needs NumPy alone, because submissions contain a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.belief import Bits, Joint
from workflow_rl.cage4.scenario.scenario4 import SLEEP_ACTIONS

if TYPE_CHECKING:
    from workflow_rl.cage4.scenario.simulator_protocol import Simulator


class BlueSees(NamedTuple):
    """What a team sees of M envs after a step or a reset.

    obs: int8 [M, 578], the observations of the five agents, joined.
    raw: `RAW` [M], or [0] if the team reads no raw record.
    busy: int [M, 5], for how many more steps each agent is busy."""

    obs: NDArray[np.int8]
    raw: NDArray[Any]
    busy: Joint

    def of(self, rows: NDArray[np.int64]) -> BlueSees:
        raw = self.raw[rows] if len(self.raw) else self.raw
        return BlueSees(self.obs[rows], raw, self.busy[rows])


class BlueTeam(Protocol):
    """Five blue agents, in envs that are numbered from 0.

    reads_raw: whether the team reads `BlueSees.raw`. Such a team reads nothing of `BlueSees.obs`
    but the messages."""

    @property
    def reads_raw(self) -> bool: ...

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        """Begin episodes in M envs. seeds: for the team's own draws. masks: [M, 570]."""

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits | None]:
        """Return actions [M, 5], and messages [M, 5, 8] or None."""

    def see(self, envs: Sequence[int], taken: Joint, seen: BlueSees) -> None:
        """Read what a step showed.

        taken: the actions [M, 5] that were played. A busy agent's action is a Sleep."""


TeamMaker: TypeAlias = Callable[[int], BlueTeam]
"""Makes a team for a number of envs. Workers receive a pickled copy."""


class SingleTeam:
    """A team that plays one episode at a time. team: a team made for one env."""

    def __init__(self, team: BlueTeam) -> None:
        self._team = team
        self.reads_raw = team.reads_raw
        self._beginning: tuple[int, Bits] | None = None
        self._taken: Joint = np.array([SLEEP_ACTIONS])

    def reset(self, masks: Sequence[Bits], seed: int) -> None:
        """Begin an episode. masks: `Simulator.masks`. seed: for the team's own draws."""
        self._beginning = seed, np.concatenate(masks)[None]

    def act(
        self,
        observations: Sequence[NDArray[np.int64]],
        look: Callable[[], NDArray[Any]],
        busy: Sequence[int] | NDArray[np.int64],
    ) -> tuple[list[int], Bits | None]:
        """Return five actions, and messages `[5, 8]` or None, as `Simulator.step` takes them.

        observations: the five vectors of the last step, or of the reset.
        look: returns `Simulator.raw_arrays` of that step.
        busy: `[5]`, for how many more steps each agent is busy."""
        obs = np.concatenate(observations)[None].astype(np.int8)
        raw = look() if self.reads_raw else np.zeros(0)
        seen = BlueSees(obs, raw, np.array(busy, np.int64)[None])
        if self._beginning is not None:
            seed, masks = self._beginning
            self._team.begin([0], [seed], masks, seen)
            self._beginning = None
        else:
            self._team.see([0], self._taken, seen)
        self._taken, messages = self._team.act([0])
        return self._taken[0].tolist(), None if messages is None else messages[0]

    def act_in(
        self, simulator: Simulator, observations: Sequence[NDArray[np.int64]]
    ) -> tuple[list[int], Bits | None]:
        """Call `act` with what a simulator shows. observations: from its last step or reset."""
        return self.act(observations, simulator.raw_arrays, simulator.busy_steps)
