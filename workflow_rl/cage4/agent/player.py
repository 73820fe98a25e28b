"""A named team of CAGE-4, as `load_agent` returns it. The team takes PettingZoo's dictionaries."""

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

    A team that reads raw observations needs the env's `observation="raw"`. The team's messages are
    not sent."""

    agents = AGENTS

    def __init__(self, team: SingleTeam) -> None:
        self._team = team
        self._reader = RawReader()
        self._seed: int | None = 0

    def reset(self, seed: int = 0) -> None:
        """Begin an episode. The team's random choices follow from `seed`."""
        self._seed = seed

    def act(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> dict[str, int]:
        """Return the five agents' actions after the environment's `reset` or `step`.

        observations: by agent, a dictionary if the team reads raw observations. Otherwise an int
            vector, [92] for agents 0 to 3 and [210] for agent 4.
        infos: by agent, with `busy_steps`. The infos of a reset also need `action_mask`, [82] for
            agents 0 to 3 and [242] for agent 4.

        Raises ObservationError if an observation or a mask is missing, or if the team does not read
        observations of this kind."""
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
        record = np.zeros(0)
        vectors = _SILENCE
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
    """Return the observations as vectors. Raises ObservationError for a vector of a wrong size. The
    team joins the vectors, so a wrong size would shift what other agents read."""
    vectors = [np.asarray(vector) for vector in shown]
    for name, vector, size in zip(AGENTS, vectors, OBS_SIZES, strict=True):
        if vector.shape != (size,):
            raise ObservationError(
                f"{name}'s observation has the shape {vector.shape}: it must be ({size},)"
            )
    return vectors
