"""A task that needs a memory."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.any_envs import Result


class RecallEnv(gymnasium.Env[Any, Any]):
    """A cue is shown at the first step only. The last action should name it, `length` steps on."""

    def __init__(self, length: int = 10, n_cues: int = 2) -> None:
        self._length, self._n_cues = length, n_cues
        self.observation_space = spaces.Box(0, 1, (n_cues + 1,), np.float32)
        self.action_space = spaces.Discrete(n_cues)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._cue, self._steps = int(self.np_random.integers(self._n_cues)), 0
        return self._obs(), {}

    def step(self, action: Any) -> Result:
        self._steps += 1
        ended = self._steps > self._length
        return self._obs(), float(ended and action == self._cue), ended, False, {}

    def _obs(self) -> Any:
        obs = np.zeros(self._n_cues + 1, np.float32)
        obs[-1] = self._steps == self._length
        if not self._steps:
            obs[self._cue] = 1
        return obs
