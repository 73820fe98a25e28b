"""Environments and teams drawn by number: spaces, names, masks, lengths and answers of all kinds,
usual and odd. No torch."""

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
ODD_NAMES: tuple[Any, ...] = (0, 1, None, ("a", 1), "two\nlines", "", "y" * 5000, "\x1b[2J", 1.5)
KEYS: tuple[Any, ...] = ("obs", "a/b", "", "two\nlines", "state", "Größe", "0", "mean")
REWARDS: tuple[Any, ...] = (float, int, np.float32, np.float64, bool, np.array)
ODD_REWARDS: tuple[Any, ...] = (
    str,
    lambda reward: None,
    lambda reward: np.array([reward]),
    lambda reward: [reward],
    complex,
)
FLAGS: tuple[Any, ...] = (bool, np.bool_, int, np.array)
ODD_FLAGS: tuple[Any, ...] = (lambda flag: flag or None, str, lambda flag: np.array([flag]))


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
        odd = chance.random() < 0.1
        self.reward = chance.choice(ODD_REWARDS if odd else REWARDS)
        self.flag = chance.choice(ODD_FLAGS if chance.random() < 0.1 else FLAGS)
        self.info = chance.choice([None, {}] if chance.random() < 0.05 else [{}])
        self.old_reset, self.old_step = chance.random() < 0.03, chance.random() < 0.03
        self.mask_in = chance.choice([None, None, "info", "obs", "step", "mask", "method"])
        self.mask_kind = chance.choice([np.int8, bool, np.float64, np.int64])
        self.mask_odd = chance.choice(["short", "zeros", "twos"]) if chance.random() < 0.1 else ""
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
        return self._shown()[0] if self.old_reset else self._shown()

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        ended = self.steps >= self.length
        obs, info = self._shown()
        reward = self.reward(float(self.np_random.random()))
        flags = self.flag(ended and self.terminates), self.flag(ended and not self.terminates)
        return (obs, reward, ended, info) if self.old_step else (obs, reward, *flags, info)

    def _shown(self) -> tuple[Any, Any]:
        self.mask = np.zeros(0)
        if self.choices:
            parts = [self.np_random.integers(2, size=n) for n in self.choices]
            for part in parts:
                part[self.np_random.integers(len(part))] = self.mask_odd != "zeros"
            self.mask = np.concatenate(parts).astype(self.mask_kind)
            if self.mask_odd == "zeros":
                self.mask[:] = 0
            if self.mask_odd == "short":
                self.mask = self.mask[1:]
            if self.mask_odd == "twos":
                self.mask = 2 * self.mask.astype(np.int8)
        obs, info = self._obs(), self.info
        if self.choices and (
            self.mask_in in ("info", "mask") or (self.mask_in == "step" and self.steps)
        ):
            info = {"mask" if self.mask_in == "mask" else "action_mask": self.mask}
        return obs, info

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
        names = ODD_NAMES if chance.random() < 0.15 else NAMES
        self.possible_agents = chance.sample(names, chance.randint(1, 4))
        if chance.random() < 0.04:
            self.possible_agents = chance.choice([[], ["a", "a"], ["a", 1, "1"]])
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
        if chance.random() < 0.05 and self.spaces:
            name = self.possible_agents[0]
            self.spaces[name] = self.spaces[name][0], taken(chance)
        if chance.random() < 0.3:
            self.shared_reward = True
        if chance.random() < 0.03:
            self.agent_iter = lambda: iter(())
        self.length = chance.randint(1, 6)
        self.leaves = chance.random() < 0.3
        self.terminates = chance.random() < 0.5
        self.stranger = chance.choice(["agents", "obs", "reward"]) if chance.random() < 0.08 else ""
        self.reward = chance.choice(ODD_REWARDS if chance.random() < 0.08 else REWARDS)
        self.flag = chance.choice(ODD_FLAGS if chance.random() < 0.08 else FLAGS)
        self.masks = chance.choice(["", "", "info", "step", "mask"])
        self.old_reset = chance.random() < 0.04

    def observation_space(self, agent: Any) -> Space:
        return self.spaces[agent][0]

    def action_space(self, agent: Any) -> Space:
        return self.spaces[agent][1]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.random = np.random.default_rng(seed)
        self.steps, self.agents = 0, list(self.possible_agents)
        if self.stranger == "agents":
            self.agents.append("ghost")
        return self._seen() if self.old_reset else (self._seen(), self._infos())

    def step(self, actions: dict[Any, int]) -> Any:
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), action
        self.steps += 1
        ended, there = self.steps >= self.length, list(self.agents)
        gone = there if ended else there[1:2] if self.leaves else []
        rewards = {agent: self.reward(float(self.random.random())) for agent in there}
        if self.stranger == "reward":
            rewards["ghost"] = 1.0
        self.agents = [agent for agent in there if agent not in gone]
        obs = {agent: self._one(agent) for agent in there}
        if self.stranger == "obs":
            obs["ghost"] = 1.0
        ends = {agent: agent in gone for agent in there}
        terminated = {agent: self.flag(self.terminates and end) for agent, end in ends.items()}
        truncated = {agent: self.flag(not self.terminates and end) for agent, end in ends.items()}
        return obs, rewards, terminated, truncated, self._infos()

    def _seen(self) -> dict[Any, Any]:
        return {agent: self._one(agent) for agent in self.agents}

    def _one(self, agent: Any) -> Any:
        return shown(self.spaces[agent][0], self.random) if agent in self.spaces else 0.0

    def _infos(self) -> dict[Any, Any]:
        if not self.masks or (self.masks == "step" and not self.steps):
            return {agent: {} for agent in self.agents}
        name = "mask" if self.masks == "mask" else "action_mask"
        sizes = {agent: getattr(self.spaces.get(agent, (0, 0))[1], "n", 2) for agent in self.agents}
        return {agent: {name: np.eye(int(n), dtype=np.int8)[0]} for agent, n in sizes.items()}


def drawn(number: int) -> Any:
    """Return the environment, or for odd numbers the team, of this number."""
    return DrawnTeam(number) if number % 2 else DrawnEnv(number)
