"""Actors that do as they are told."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Sleeping:
    """An actor that sleeps. It notes the seeds of its episodes, and what its first env shows."""

    policy_version = 0

    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.seen: list[Any] = []

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        self.seeds.append(seed)

    def act(self, obs: Any, envs: Sequence[int] = (0,)) -> Any:
        self.seen.append(obs[0].copy())
        return np.zeros(len(obs), np.int64), np.zeros(len(obs), np.float32)


class Reciting:
    """A Blue that takes these actions, one after the other. It notes what it sees."""

    def __init__(self, actions: list[int]) -> None:
        self.actions = actions
        self.seen: list[Any] = []

    def reset(self, seed: int) -> None:
        self.seen = []

    def act(self, obs: Any, info: Any = None) -> int:
        self.seen.append(obs)
        return self.actions[len(self.seen) - 1]
