"""CAGE-4's teams by name, as `load_agent` returns them: they take PettingZoo's dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workflow_rl.cage4.agent.scripted import ScriptedTeam
from workflow_rl.cage4.scenario4 import AGENTS, OBS_SIZES
from workflow_rl.environments.env_batch import ObservationError


class TeamPlayer:
    """A team that plays one episode after another on `workflow_rl.cage4.parallel_env()`.

    It sends no messages.
    """

    agents = AGENTS

    def __init__(self, team: ScriptedTeam) -> None:
        self._team = team
        self._seed: int | None = 0

    def reset(self, seed: int = 0) -> None:
        """Begin an episode, whose random choices, if the team makes any, follow from `seed`."""
        self._seed = seed

    def act(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> dict[str, int]:
        """Return the five agents' actions for what `reset` or `step` of the environment returned.

        observations: by agent, int [92], and [210] of agent 4. infos: by agent; the first of an
        episode have `action_mask`, [82], and [242] of agent 4.

        Raises ObservationError if an agent's observation is missing or of another shape or, at the
        beginning of an episode, if its mask is missing.
        """
        try:
            if self._seed is not None:
                masks = [np.asarray(infos[name]["action_mask"], np.bool_) for name in AGENTS]
                self._team.reset(masks, self._seed)
                self._seed = None
            seen = [np.asarray(observations[name]) for name in AGENTS]
        except KeyError as error:
            raise ObservationError(
                f"{error} is missing: give act the observations and the infos of all five agents"
            ) from None
        # The team joins the observations: one of another size would shift what others read.
        for name, observation, size in zip(AGENTS, seen, OBS_SIZES, strict=True):
            if observation.shape != (size,):
                raise ObservationError(
                    f"{name}'s observation has the shape {observation.shape}: it must be ({size},)"
                )
        actions, _ = self._team.act(seen)
        return dict(zip(AGENTS, actions, strict=True))
