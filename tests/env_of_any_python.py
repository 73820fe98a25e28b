"""An environment that Python 3.8 to 3.13, NumPy 1 and 2, and gym and Gymnasium can play."""

from __future__ import annotations

import ctypes
import enum
import os
import time
from typing import Any

import numpy as np

try:
    import gymnasium as gym
except ImportError:
    import gym  # type: ignore[import-not-found, no-redef]

FAULTS: dict[str, Any] = {
    "exit": lambda: os._exit(7),
    "killed": lambda: os.kill(os.getpid(), 9),
    "crash": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(3600),
}


def broken() -> None:
    raise ArithmeticError("the simulator is broken")


class Walk(gym.Env):  # type: ignore[misc]
    """To the last of `size` places. fault: of FAULTS, or "exception", in a step of the process that
    can make the file `ticket`. seconds: that every call takes, also the one that makes it."""

    def __init__(
        self, size: int = 5, fault: str = "", ticket: str = "", seconds: float = 0.0
    ) -> None:
        time.sleep(seconds)
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (size,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self._size, self._fault, self._ticket, self._seconds = size, fault, ticket, seconds
        self._at = self._steps = self._drawn = 0

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        time.sleep(self._seconds)
        self._at, self._steps, self._drawn = 0, 0, int(seed or 0) % 2**31
        return self._shown(), {}

    def step(self, action: Any) -> Any:
        time.sleep(self._seconds)
        if self._fault and not os.path.exists(self._ticket):
            with open(self._ticket, "w"):
                FAULTS.get(self._fault, broken)()
        self._steps += 1
        self._at = min(max(self._at + int(action) - 1, 0), self._size - 1)
        is_there = self._at == self._size - 1
        return self._shown(), np.float64(is_there) - 0.1, is_there, self._steps == 20, {"at": self}

    def _shown(self) -> Any:
        self._drawn = (self._drawn * 1103515245 + 12345) % 2**31
        shown = np.full(self._size, self._drawn / 2**31 - 0.5, np.float32)
        shown[self._at] = 1.0
        return shown


class Walks:
    """A team of two. Whoever arrives leaves."""

    possible_agents = ("first", "second")

    def __init__(self, seconds: float = 0.0) -> None:
        self._walks = {agent: Walk(4, seconds=seconds / 2) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        return self._walks[agent].observation_space

    def action_space(self, agent: str) -> Any:
        return self._walks[agent].action_space

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        seeds = {"first": seed, "second": seed + 1}
        obs = {agent: self._walks[agent].reset(seeds[agent])[0] for agent in self.agents}
        return obs, {agent: {} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        answers = {agent: self._walks[agent].step(actions[agent]) for agent in self.agents}
        self.agents = [agent for agent, (_, _, *ends, _) in answers.items() if not any(ends)]
        return tuple({agent: answers[agent][part] for agent in answers} for part in range(5))


class Role(str, enum.Enum):  # noqa: UP042  Python 3.8 plays it.
    FIRST = "first"
    SECOND = "second"


class OddWalks(Walks):
    """Names agents by an Enum, gives lists of tensors, and no info of an agent."""

    class Tensor:
        def __init__(self, array: Any) -> None:
            self._array = array

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self._array

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        obs, _ = super().reset(seed)
        return {Role(one): self.Tensor(of) for one, of in obs.items()}, dict.fromkeys(Role)


class FlaglessWalks(Walks):
    def step(self, actions: Any) -> Any:
        obs, rewards, terminated, _, infos = super().step(actions)
        return obs, rewards, terminated, dict.fromkeys(obs, np.zeros(2)), infos


class ListedWalks(Walks):
    def reset(self, seed: Any = None, options: Any = None) -> Any:
        return list(super().reset(seed))


class OldWalk(Walk):
    """As environments were before gym 0.26: a method takes the seed, and both ends are one."""

    def seed(self, seed: Any) -> None:
        self._seed = seed

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset(self._seed)[0]

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated or truncated, {"TimeLimit.truncated": not terminated}


class WithoutOptions(Walk):
    def reset(self, *, seed: Any = None) -> Any:  # type: ignore[override]
        return super().reset(seed)


class MaskedWalk(Walk):
    def action_masks(self) -> Any:
        return np.array([self._at > 0, True, True])


class OfObjects(Walk):
    """Shows an object beside its numbers, and tells of it under a key that is one, too."""

    def __init__(self) -> None:
        super().__init__()
        parts = {"numbers": self.observation_space, "object": gym.spaces.Space()}
        self.observation_space = gym.spaces.Dict(parts)

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed)[0], {"of": {self: 1}}

    def _shown(self) -> Any:
        return {"numbers": super()._shown(), "object": self}


class Bare:
    """Has no more than is asked for. What it shows depends on how text is hashed."""

    __slots__ = ("_walk", "action_space", "observation_space")

    def __init__(self) -> None:
        self._walk = Walk()
        self.observation_space = self._walk.observation_space
        self.action_space = self._walk.action_space

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        return self._walk.reset(hash("a text") % 2**31)

    def step(self, action: Any) -> Any:
        return self._walk.step(action)


class Forking(Walk):
    def step(self, action: Any) -> Any:
        os.system("sleep 60 &")
        if os.fork() == 0:
            time.sleep(60)
        os._exit(7)


class Drawing(Walk):
    """Draws from NumPy's state of the whole process."""

    def _shown(self) -> Any:
        self._drawn = int(np.random.randint(2**31))
        return np.full(self._size, np.random.normal(), np.float32).clip(-1, 1)


def no_env() -> str:
    return "none"
