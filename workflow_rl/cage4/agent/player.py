"""CAGE-4's teams by name, as `load_agent` returns them: they take PettingZoo's dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.raw_record import RawReader
from workflow_rl.cage4.scenario.scenario4 import AGENTS, OBS_SIZES
from workflow_rl.errors import ObservationError

_SILENCE = [np.zeros(size, np.int64) for size in OBS_SIZES]


class TeamPlayer:
    """A team that plays one episode after another on `workflow_rl.cage4.parallel_env()`.

    A team that knows more than the last step plays with `observation="raw"`. It sends no messages.
    """

    agents = AGENTS

    def __init__(self, team: SingleTeam) -> None:
        self._team = team
        self._reader = RawReader()
        self._seed: int | None = 0

    def reset(self, seed: int = 0) -> None:
        """Begin an episode, whose random choices, if the team makes any, follow from `seed`."""
        self._seed = seed

    def act(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> dict[str, int]:
        """Return the five agents' actions for what `reset` or `step` of the environment returned.

        observations: by agent, a dictionary if the team reads raw observations, otherwise int [92],
        and [210] of agent 4. infos: by agent, with `busy_steps`; the first of an episode have
        `action_mask`, [82], and [242] of agent 4.

        Raises ObservationError if an agent's observation is missing or of another kind or, at the
        beginning of an episode, if its mask is missing.
        """
        is_first = self._seed is not None
        try:
            shown = [observations[name] for name in AGENTS]
            busy = [infos[name]["busy_steps"] for name in AGENTS]
            if is_first:
                masks = [np.asarray(infos[name]["action_mask"], np.bool_) for name in AGENTS]
        except KeyError as error:
            raise ObservationError(
                f"{error} is missing: give act the observations and the infos of all five agents"
            ) from None
        record, vectors = np.zeros(0), _SILENCE
        if self._team.reads_raw:
            record = self._record(shown, is_first)
        else:
            vectors = _vectors(shown)
        if self._seed is not None:
            self._team.reset(masks, self._seed)
            self._seed = None
        actions, _ = self._team.act(vectors, lambda: record, busy)
        return dict(zip(AGENTS, actions, strict=True))

    def _record(self, shown: list[Any], is_first: bool) -> NDArray[Any]:
        if not all(isinstance(told, Mapping) for told in shown):
            raise ObservationError(
                'the team reads raw observations: make the environment with observation="raw"'
            )
        return self._reader.begin(shown) if is_first else self._reader.read(shown)


def _vectors(shown: list[Any]) -> list[NDArray[np.int64]]:
    """Return the observations as vectors. The team joins them: a vector of another size would shift
    what other agents read. Raises ObservationError."""
    vectors = [np.asarray(vector) for vector in shown]
    for name, vector, size in zip(AGENTS, vectors, OBS_SIZES, strict=True):
        if vector.shape != (size,):
            raise ObservationError(
                f"{name}'s observation has the shape {vector.shape}: it must be ({size},)"
            )
    return vectors
