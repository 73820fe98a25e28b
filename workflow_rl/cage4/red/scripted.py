"""Red teams that do not learn, for comparisons. They lead simulators into rare states."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.compiled import actions
from workflow_rl.cage4.compiled.red_tables import CUMULATED, FINITE_STATE, N_OPTIONS, OPTIONS
from workflow_rl.cage4.compiled.red_tables import STATES as HOST_STATES
from workflow_rl.cage4.red import red_api
from workflow_rl.cage4.red.red_api import (
    FIRST_KNOWN,
    FIRST_RED_CHOICE,
    FIRST_RED_OBS,
    FIRST_STATUS,
    HOST_KINDS,
)

Chosen: TypeAlias = tuple[list[int], list[int]]
UNKNOWN_SESSION = 30_000


class RandomReds:
    """Each agent draws a kind of action that its mask allows, then a target. Half of the time, the
    agent also draws one of the session ids that it knows."""

    def reset(self, seed: int) -> None:
        """Begin an episode. seed: for the team's draws."""
        self._generator = np.random.default_rng([seed, 6])

    def act(self, row: NDArray[np.uint8], sessions: Sequence[Sequence[int]]) -> Chosen:
        """Return six choices and sessions, as `RedSideSimulator.choose` takes them.

        row: see `RedSideSimulator.red_row`. sessions: the ids that each agent knows.
        """
        masks = np.split(row, FIRST_RED_CHOICE)[1:]
        observations = np.split(row[:FIRST_STATUS], FIRST_RED_OBS[1:])
        choices = [
            self._choice(agent, *seen)
            for agent, seen in enumerate(zip(observations, masks, strict=True))
        ]
        return choices, [self._session(of_agent) for of_agent in sessions]

    def _choice(self, agent: int, obs: NDArray[np.uint8], mask: NDArray[np.uint8]) -> int:
        possible = np.flatnonzero(mask)
        kinds = red_api.KIND_OF[agent, possible]
        return self._one_of(possible[kinds == self._one_of(np.unique(kinds))])

    def _session(self, known: Sequence[int]) -> int:
        is_free = bool(known) and self._generator.random() < 0.5
        return self._one_of(known) if is_free else FIRST_KNOWN

    def _one_of(self, options: Any) -> int:
        return int(options[self._generator.integers(len(options))])


class CarelessReds(RandomReds):
    """Half of the time, an agent draws from all its choices, even impossible choices. In one choice
    of ten, the agent draws a session id that may be unknown."""

    def _choice(self, agent: int, obs: NDArray[np.uint8], mask: NDArray[np.uint8]) -> int:
        if self._generator.random() < 0.5:
            return super()._choice(agent, obs, mask)
        return int(self._generator.integers(red_api.N_RED_CHOICES[agent]))

    def _session(self, known: Sequence[int]) -> int:
        if self._generator.random() < 0.1:
            return self._one_of([*range(5), UNKNOWN_SESSION])
        return super()._session(known)


class ProgramReds(RandomReds):
    """Agents choose as `FiniteStateRedAgent` does, from the host states that they see. One in ten
    choices is as in `RandomReds`. The agents act with the first session that can scan."""

    def _choice(self, agent: int, obs: NDArray[np.uint8], mask: NDArray[np.uint8]) -> int:
        n_hosts, n_zones = red_api.N_HOSTS_OF[agent], red_api.N_ZONES_OF[agent]
        hosts = obs[red_api.N_FACTS[agent] :].reshape(red_api.N_FEATURES, n_hosts)
        states = hosts[red_api.STATE :]
        known = np.flatnonzero(states[: HOST_STATES.index("F")].any(axis=0))
        if not len(known) or self._generator.random() < 0.1:
            return super()._choice(agent, obs, mask)
        host = self._one_of(known)
        state = FINITE_STATE, int(states[:, host].argmax())
        chances = CUMULATED[state][: N_OPTIONS[state]]
        kind = int(OPTIONS[state][np.searchsorted(chances, self._generator.random(), "right")])
        if kind == actions.DISCOVER:
            return 1 + int(self._generator.integers(n_zones))
        return int(1 + n_zones + HOST_KINDS.index(kind) * n_hosts + host)

    def _session(self, known: Sequence[int]) -> int:
        return FIRST_KNOWN


RED_TEAMS: dict[str, type[RandomReds]] = {
    "random-reds": RandomReds,
    "careless-reds": CarelessReds,
    "program-reds": ProgramReds,
}
