"""Envs as they are tried out: with a close look at what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from workflow_rl.environments.action_mask import require_no_other_mask
from workflow_rl.environments.env_batch import Env
from workflow_rl.environments.environment import ENV, InvalidEnvironmentError
from workflow_rl.environments.flat_env import FlatEnv

_FEW_LEVELS = 16
_MOST_NUMBERS = 2_000_000


class CheckedEnv(FlatEnv):
    """The env with its own observations and actions. Checks observations as FlatEnv does."""

    def __init__(self, env: Env, masks: bool = False) -> None:
        super().__init__(env, masks)
        self.observation_space = env.observation_space
        self._unflatten = lambda action: action
        team = getattr(env, "envs", env)
        if hasattr(team, "show_exactly"):  # A team's rows are rounded before they come here.
            team.show_exactly()

    def _shown(self, obs: Any, info: Mapping[str, Any], ended: bool) -> Any:
        with np.errstate(over="raise"):  # For a number that float32 cannot hold.
            super()._shown(obs, info, ended)
        if self._masks and not self._offers_mask:
            require_no_other_mask(self.env, obs, info)
        return obs

    def require_told_apart(self, observations: Sequence[Any]) -> None:
        """Raise InvalidEnvironmentError if float32 cannot tell these apart. None is left out."""
        exact = self._flattening(np.dtype(np.longdouble))
        shown = [obs for obs in observations if obs is not None]
        thinned = shown[:: 1 + len(shown) * spaces.flatdim(self._seen) // _MOST_NUMBERS]
        rows = np.array([exact(obs) for obs in thinned])
        rounded = rows.astype(np.float32)
        # Where all observations look alike. Beyond 2**24, float32 lacks whole numbers.
        is_lost = (rows != rows[0]).any() and (rounded == rounded[0]).all()
        # Zeros apart: absent agents show zeros.
        low, high = (np.where(rows, rows, end) for end in (np.inf, -np.inf))
        low, high = low.min(axis=0), high.max(axis=0)
        largest = np.maximum(np.abs(low), np.abs(high)).astype(np.float32)
        with np.errstate(invalid="ignore"):  # Infinite numbers, which other checks refuse.
            few = (high - low < _FEW_LEVELS * np.spacing(largest)) & (is_lost | (largest > 2**24))
        for k in np.flatnonzero(few):
            if len(np.unique(rows[:, k])) > len(np.unique(rounded[:, k])):
                raise InvalidEnvironmentError(
                    ENV,
                    f"its observations hold numbers from {float(low[k])} to {float(high[k])}, "
                    "which float32 cannot tell apart: subtract a constant in the environment",
                )
