"""Environments and teams drawn by number: spaces, names, masks and lengths of all kinds. No
torch."""

import random
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Space = spaces.Space[Any]

NAMES: tuple[Any, ...] = (
    *("agent_0", "agent_1", "blue/agent", "blue", "blue/agent/actor.0.weight", "a,b", "*", "a=b"),
    *("[ab]", "  ", "Größe", "x" * 90, "<b>&amp;", "__reduce__", "0", "all", "critic", "%s{}"),
)
KEYS: tuple[Any, ...] = ("obs", "a/b", "", "two\nlines", "state", "Größe", "0", "mean")
REWARDS: tuple[Any, ...] = (float, int, np.float32, np.float64, bool, np.array)
FLAGS: tuple[Any, ...] = (bool, np.bool_, int, np.array)


def box_of(chance: random.Random) -> Space:
    shape = chance.choice([(), (1,), (3,), (2, 2), (1, 2, 1)])
    low, high, dtype = chance.choice(
        [
            (-1, 1, np.float32),
            (-np.inf, np.inf, np.float32),
            (0, 1000, np.float64),
            (0, np.inf, np.float64),
            (-3e38, 3e38, np.float32),
            (-1e9, 1e9, np.float64),
            (0, 1, np.int8),
            (0, 255, np.uint8),
            (-5, 2**40, np.int64),
            (0, 65535, np.uint16),
            (0, 1, np.bool_),
        ]
    )
    return spaces.Box(low, high, shape, dtype)  # type: ignore[arg-type]


def observed(chance: random.Random, depth: int = 0) -> Space:
    kinds = ["box"] * 4 + ["discrete", "binary", "multi"] + ["dict", "tuple"] * (depth < 2)
    kind = chance.choice([*kinds, *(["empty", "text"] if chance.random() < 0.05 else [])])
    if kind == "discrete":
        return spaces.Discrete(chance.randint(1, 5), start=chance.choice([0, -2, 7]))
    if kind == "binary":
        return spaces.MultiBinary(chance.choice([3, [2, 2]]))  # type: ignore[arg-type]
    if kind == "multi":
        return spaces.MultiDiscrete(*chance.choice([([2, 3],), ([[2, 2], [3, 1]],)]))
    if kind == "dict":
        keys = chance.sample(KEYS, chance.randint(1, 3))
        return spaces.Dict({key: observed(chance, depth + 1) for key in keys})
    if kind == "tuple":
        return spaces.Tuple([observed(chance, depth + 1) for _ in range(chance.randint(1, 3))])
    if kind == "empty":
        return spaces.Box(-1, 1, (0,))
    return spaces.Text(3) if kind == "text" else box_of(chance)


def taken(chance: random.Random) -> Space:
    kind = chance.choice(["discrete", "multi", "box", "box", "odd"])
    if kind == "discrete":
        return spaces.Discrete(chance.randint(1, 5), start=chance.choice([0, 0, -2, 7]))
    if kind == "multi":
        return spaces.MultiDiscrete(chance.choice([[2, 3], [[2, 2], [3, 1]], [4]]))
    if kind == "box":
        ends = [(-1, 1), (0, 1000), (-np.inf, np.inf), (0, np.inf), (-3e38, 3e38), (2, 2)]
        low, high = chance.choice([*ends, (1e9, 1e9 + 1), (-1e-3, 1e-3)])
        shape, dtype = chance.choice([(), (1,), (2, 2)]), chance.choice([np.float32, np.float64])
        return spaces.Box(low, high, shape, dtype)  # type: ignore[arg-type]
    return chance.choice(
        [
            spaces.MultiBinary(3),
            spaces.Box(0, 5, (1,), np.int64),
            spaces.Text(3),
            spaces.Box(-1, 1, (0,)),
            spaces.Dict({"a": spaces.Discrete(2)}),
            spaces.Tuple([spaces.Discrete(2)]),
        ]
    )


def shown(space: Space, random: np.random.Generator) -> Any:
    """An observation of a space. What Gymnasium would sample is at times larger than float32."""
    if isinstance(space, spaces.Dict):
        return {key: shown(one, random) for key, one in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(shown(one, random) for one in space.spaces)
    if isinstance(space, spaces.Box):
        low, high = (np.clip(ends, -1e3, 1e3) for ends in (space.low, space.high))
        return np.asarray(random.uniform(low, high), space.dtype)
    space.seed(int(random.integers(2**31)))
    return space.sample()


class DrawnEnv(gymnasium.Env[Any, Any]):
    def __init__(self, number: int) -> None:
        chance = random.Random(number)
        self.observation_space, self.action_space = observed(chance), taken(chance)
        self.lengths = chance.choice([(1, 1), (1, 3), (2, 9)])
        self.terminates = chance.random() < 0.5
        self.reward, self.flag = chance.choice(REWARDS), chance.choice(FLAGS)
        self.mask_in = chance.choice([None, None, "info", "obs", "method"])
        self.mask_kind = chance.choice([np.int8, bool, np.float64, np.int64])
        self.choices = (
            [int(self.action_space.n)]
            if isinstance(self.action_space, spaces.Discrete)
            else self.action_space.nvec.ravel().tolist()
            if isinstance(self.action_space, spaces.MultiDiscrete)
            else []
        )
        if self.mask_in == "obs" and self.choices:
            entry = spaces.Box(0, 1, (sum(self.choices),), np.int8)
            self.observation_space = spaces.Dict(
                {"rest": self.observation_space, "action_mask": entry}
            )
        if self.mask_in == "method":
            self.action_masks = lambda: self.mask

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.length = 0, int(self.np_random.integers(*self.lengths, endpoint=True))
        return self._shown()

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        ended = self.steps >= self.length
        obs, info = self._shown()
        reward = self.reward(float(self.np_random.random()))
        flags = self.flag(ended and self.terminates), self.flag(ended and not self.terminates)
        return obs, reward, *flags, info

    def _shown(self) -> tuple[Any, Any]:
        self.mask = np.zeros(0)
        if self.choices:
            parts = [self.np_random.integers(2, size=n) for n in self.choices]
            for part in parts:
                part[self.np_random.integers(len(part))] = 1
            self.mask = np.concatenate(parts).astype(self.mask_kind)
        is_told = self.choices and self.mask_in == "info"
        return self._obs(), {"action_mask": self.mask} if is_told else {}

    def _obs(self) -> Any:
        if self.mask_in != "obs" or not self.choices:
            return shown(self.observation_space, self.np_random)
        assert isinstance(self.observation_space, spaces.Dict)
        return {
            "rest": shown(self.observation_space["rest"], self.np_random),
            "action_mask": self.mask,
        }


class DrawnTeam:
    def __init__(self, number: int) -> None:
        chance = random.Random(number)
        self.possible_agents = chance.sample(NAMES, chance.randint(1, 4))
        self.is_alike = chance.random() < 0.5
        alike = observed(chance, 1), spaces.Discrete(chance.randint(1, 4))
        self.spaces = {
            name: alike
            if self.is_alike
            else (
                observed(chance, 1),
                spaces.Discrete(chance.randint(1, 4), start=chance.choice([0, 2])),
            )
            for name in self.possible_agents
        }
        if chance.random() < 0.05:
            name = self.possible_agents[0]
            self.spaces[name] = self.spaces[name][0], taken(chance)
        if chance.random() < 0.3:
            self.shared_reward = True
        self.length = chance.randint(1, 6)
        self.leaves = chance.random() < 0.3
        self.terminates = chance.random() < 0.5
        self.reward, self.flag = chance.choice(REWARDS), chance.choice(FLAGS)
        self.is_masked = chance.random() < 0.4

    def observation_space(self, agent: Any) -> Space:
        return self.spaces[agent][0]

    def action_space(self, agent: Any) -> Space:
        return self.spaces[agent][1]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.random = np.random.default_rng(seed)
        self.steps, self.agents = 0, list(self.possible_agents)
        return {agent: self._one(agent) for agent in self.agents}, self._infos()

    def step(self, actions: dict[Any, int]) -> Any:
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), action
        self.steps += 1
        ended, there = self.steps >= self.length, list(self.agents)
        gone = there if ended else there[1:2] if self.leaves else []
        rewards = {agent: self.reward(float(self.random.random())) for agent in there}
        self.agents = [agent for agent in there if agent not in gone]
        obs = {agent: self._one(agent) for agent in there}
        ends = {agent: agent in gone for agent in there}
        terminated = {agent: self.flag(self.terminates and end) for agent, end in ends.items()}
        truncated = {agent: self.flag(not self.terminates and end) for agent, end in ends.items()}
        return obs, rewards, terminated, truncated, self._infos()

    def _one(self, agent: Any) -> Any:
        return shown(self.spaces[agent][0], self.random)

    def _infos(self) -> dict[Any, Any]:
        if not self.is_masked:
            return {agent: {} for agent in self.agents}
        sizes = {agent: getattr(self.spaces[agent][1], "n", 2) for agent in self.agents}
        return {
            agent: {"action_mask": np.eye(int(n), dtype=np.int8)[0]} for agent, n in sizes.items()
        }


def drawn(number: int) -> Any:
    """Return the environment, or for odd numbers the team, of this number."""
    return DrawnTeam(number) if number % 2 else DrawnEnv(number)
