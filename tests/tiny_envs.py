"""Small deterministic Gymnasium environments: what the tests step instead of CybORG. No torch."""

import hashlib
import time
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from workflow_rl.environments.env_batch import SerialEnvs

Obs = NDArray[np.uint8]
Step = tuple[Obs, float, bool, bool, dict[str, Any]]

OBS_DIM = 52
N_ACTIONS = 145


class CountingEnv(gymnasium.Env[Obs, Any]):
    """CAGE 2's spaces over a hash of all that happened since the reset.

    The first 8 bits of an observation count the steps of the episode, most significant bit first;
    the other 44 come from a hash of the seed, the reset's options and every action, and so does
    the reward, -1.2 to 0.0. A lost, doubled or foreign action therefore changes every observation
    after it. The seed alone decides how many steps an episode has, `min_length` to `max_length`,
    and whether it ends terminated or truncated.
    """

    def __init__(self, min_length: int = 3, max_length: int = 12) -> None:
        assert 1 <= min_length <= max_length <= 255
        self.observation_space = gymnasium.spaces.Box(0, 1, (OBS_DIM,), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(N_ACTIONS)
        self._lengths = (min_length, max_length)
        self._length = self._steps = 0
        self._terminates = False
        self._digest = b""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode. Every option, of whatever name, becomes part of what is observed."""
        super().reset(seed=seed)
        shortest, longest = self._lengths
        self._length = int(self.np_random.integers(shortest, longest + 1))
        self._terminates = bool(self.np_random.integers(2))
        self._steps = 0
        chosen = repr(sorted((options or {}).items())).encode()
        self._digest = hashlib.sha256(self.np_random.bytes(8) + chosen).digest()
        return self._obs(), {}

    def step(self, action: int) -> Step:
        """One step. RuntimeError if the episode has ended, ValueError for an unknown action."""
        if self._steps == self._length:
            raise RuntimeError(f"the episode ended after {self._length} steps: reset the env first")
        if not self.action_space.contains(action):
            raise ValueError(f"action is {action}, but must be from 0 to {N_ACTIONS - 1}")
        self._steps += 1
        self._digest = hashlib.sha256(self._digest + int(action).to_bytes(2)).digest()
        ended = self._steps == self._length
        reward = -(self._digest[-1] % 13) / 10
        return self._obs(), reward, ended and self._terminates, ended and not self._terminates, {}

    def _obs(self) -> Obs:
        count_and_hash = np.frombuffer(bytes([self._steps]) + self._digest[:6], np.uint8)
        return np.unpackbits(count_and_hash)[:OBS_DIM]


def make_counting_envs(n_envs: int) -> SerialEnvs:
    return SerialEnvs(CountingEnv, n_envs)


class RaisingEnv(CountingEnv):
    """A CountingEnv whose episodes of these seeds always raise: at their reset or second step."""

    def __init__(
        self,
        seeds: frozenset[int],
        method: str = "step",
        error: type[BaseException] = ArithmeticError,
    ) -> None:
        super().__init__()
        self._seeds, self._method, self._error = seeds, method, error
        self._raises = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._raises = seed in self._seeds
        if self._raises and self._method == "reset":
            raise self._error(f"no episode of seed {seed} at {object()}")
        return super().reset(seed=seed, options=options)

    def step(self, action: int) -> Step:
        if self._raises and self._steps == 1:
            raise self._error(f"no second step at {object()}")
        return super().step(action)


class SleepyEnv(CountingEnv):
    """A CountingEnv whose steps and resets take the given wall time."""

    def __init__(
        self,
        step_seconds: float,
        reset_seconds: float = 0.0,
        min_length: int = 3,
        max_length: int = 12,
    ) -> None:
        super().__init__(min_length, max_length)
        self._step_seconds, self._reset_seconds = step_seconds, reset_seconds

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        time.sleep(self._reset_seconds)
        return super().reset(seed=seed, options=options)

    def step(self, action: int) -> Step:
        time.sleep(self._step_seconds)
        return super().step(action)
