"""An env that draws from the random state of the whole process, as several cyber simulators do."""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray


class GloballyDrawing(gymnasium.Env[NDArray[Any], Any]):
    """Draws when it is made, in reset and in step, from Python's and from NumPy's state."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._scale = np.random.uniform()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        return self._drawn(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        obs = self._drawn()
        return obs, float(obs[action]), random.random() < 0.1, False, {}

    def _drawn(self) -> NDArray[Any]:
        return np.array([random.random(), self._scale * np.random.uniform()], np.float32)
