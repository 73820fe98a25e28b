"""Environments that lie: no numbers, others than their space holds, or not those of their seed."""

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.any_envs import Result, TargetEnv


class OneBadEpisode(TargetEnv):
    """A TargetEnv of five steps, which knows whether its episode was reset with `bad_seed`."""

    def __init__(self, bad_seed: int) -> None:
        super().__init__(length=5)
        self._bad_seed, self._is_bad = bad_seed, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._is_bad = seed == self._bad_seed
        return super().reset(seed=seed, options=options)


class SpoiltEnv(OneBadEpisode):
    """`what`, "reward" or "observation", is NaN after the step `at` of the bad episode, as long as
    the file `switch` exists."""

    def __init__(self, what: str, bad_seed: int, switch: str, at: int = 3) -> None:
        super().__init__(bad_seed)
        self._what, self._switch, self._at = what, Path(switch), at

    def step(self, action: Any) -> Result:
        # An agent that has seen NaN answers with NaN.
        obs, reward, *ends, info = super().step(np.nan_to_num(action))
        if self._is_bad and self._steps == self._at and self._switch.exists():
            reward = math.nan if self._what == "reward" else reward
            obs = obs * np.nan if self._what == "observation" else obs
        return obs, reward, ends[0], ends[1], info


class OddStepEnv(OneBadEpisode):
    """One part of the answer to the third step of the bad episode is `value`: the observation, 0,
    or the reward, 1."""

    def __init__(self, bad_seed: int, part: int, value: Any) -> None:
        super().__init__(bad_seed)
        self._part, self._value = part, value

    def step(self, action: Any) -> Any:
        answer = list(super().step(action))
        if self._is_bad and self._steps == 3:
            answer[self._part] = self._value
        return tuple(answer)


class LaterLyingEnv(gymnasium.Env[Any, Any]):
    """From the third step on, it shows what its space does not hold."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 100, (1,), np.int64)
        self.action_space = spaces.Discrete(2)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(1, np.int64), {}

    def step(self, action: Any) -> Result:
        self._steps += 1
        return np.array([100 * self._steps]), 0.0, False, self._steps == 5, {}


class AlwaysSpoiltEnv(TargetEnv):
    """The third reward of every episode is NaN."""

    def step(self, action: Any) -> Result:
        obs, reward, *ends, info = super().step(action)
        return obs, math.nan if self._steps == 3 else reward, ends[0], ends[1], info


class ShowsNoNumberEnv(TargetEnv):
    """The second observation of every episode is infinite."""

    def step(self, action: Any) -> Result:
        obs, *others = super().step(action)
        return (obs + np.float32(np.inf) if self._steps == 2 else obs, *others)  # type: ignore[return-value]


class NoisyStepEnv(TargetEnv):
    """Rewards have noise that no seed determines."""

    def step(self, action: Any) -> Result:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward + np.random.default_rng().random(), terminated, truncated, info


class Liar(gymnasium.Env[Any, Any]):
    """Declares one space and shows something else."""

    def __init__(self, declared: spaces.Space[Any], shown: Any) -> None:
        self.observation_space, self._shown = declared, shown
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._shown, {}

    def step(self, action: Any) -> Any:
        return self._shown, 0.0, False, False, {}
