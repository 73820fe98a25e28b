"""Small environments whose steps have costs."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from workflow_rl.environments import BatchedEnv

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Hasty(gymnasium.Env[Any, Any]):
    """A walk of `length` steps, each of which is careful, 0, or hasty, 1. Haste pays 1, and costs
    what is observed, from 0 to 1: `info["costs"]["wear"]`; `info["cost"]` is 1 for haste.

    wrong, at: the info of a step in the place of the right one.
    """

    def __init__(self, length: int = 10, wrong: Any = None, at: int = 3) -> None:
        self.observation_space = Box(0, 1, (2,), np.float32)
        self.action_space: Any = Discrete(2)
        self._length, self._wrong, self._at = length, wrong, at

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._shown(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        hasty = float(np.clip(np.asarray(action, np.float64).sum(), 0, 1))
        info = self.info(hasty, hasty * self._wear)
        self._steps += 1
        if self._wrong is not None and self._steps == self._at:
            info = self._wrong
        return self._shown(), hasty, False, self._steps == self._length, info

    def info(self, hasty: float, wear: float) -> dict[str, Any]:
        return {"cost": hasty, "costs": {"wear": wear}}

    def _shown(self) -> Any:
        self._wear = float(self.np_random.random())
        return np.array([self._wear, self._steps / self._length], np.float32)


class Gradual(Hasty):
    """Haste is a number from 0 to 1."""

    def __init__(self, length: int = 10) -> None:
        super().__init__(length)
        self.action_space = Box(0.0, 1.0, (1,), np.float32)


class Pair:
    """Two agents who are hasty or careful: each wears by its own haste. `late` is there after two
    steps."""

    possible_agents = ("early", "late")
    shared_reward: ClassVar[bool] = True

    def __init__(self, length: int = 8, wrong: Any = None) -> None:
        self._length, self._wrong = length, wrong
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Box:
        return Box(0, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self._random, self._steps = np.random.default_rng(seed), 0
        self.agents = ["early"]
        return self._obs(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        acting, haste = self.agents, float(sum(actions.values()))
        infos = {agent: {"cost": actions[agent] * self._wear} for agent in acting}
        if self._wrong is not None:
            infos["early"] = self._wrong
        self._steps += 1
        ended = self._steps == self._length
        self.agents = [] if ended else ["early", "late"][: 1 + (self._steps >= 2)]
        obs = self._obs()
        if ended:
            obs = dict.fromkeys(acting, next(iter(obs.values())))
        ends = dict.fromkeys(acting, False), dict.fromkeys(acting, ended)
        return obs, dict.fromkeys(acting, haste), *ends, infos

    def _obs(self) -> dict[str, Any]:
        self._wear = float(self._random.random())
        shown = np.array([self._wear, self._steps / self._length], np.float32)
        return dict.fromkeys(self.agents or ["early"], shown)


class Many(BatchedEnv):
    """Hasty, many at once. It answers as many arrays as `n_arrays` says."""

    costs = ("cost", "wear")
    n_arrays = 5

    def __init__(self, n_envs: int, length: int = 10) -> None:
        self.observation_space = Box(0, 1, (2,), np.float32)
        self.action_space = Discrete(2)
        self._envs = [Hasty(length) for _ in range(n_envs)]

    def reset(self, indices: Any, seeds: Any) -> Any:
        pairs = zip(indices, seeds, strict=True)
        return np.stack([self._envs[env].reset(seed=int(seed))[0] for env, seed in pairs])

    def step(self, indices: Any, actions: Any) -> Any:
        pairs = zip(indices, actions, strict=True)
        *parts, infos = zip(*[self._envs[env].step(action) for env, action in pairs], strict=True)
        costs = [[info["cost"], info["costs"]["wear"]] for info in infos]
        return (*map(np.array, parts), np.array(costs))[: self.n_arrays]


class Courier(BatchedEnv):
    """A courier of `STEPS` rounds, in one of three districts, who walks, cycles or drives. The
    tables say what each pays, what it costs, and where it leads. Districts and steps are
    observed."""

    STEPS = 6
    NEXT: ClassVar = np.array(
        [
            [[0.8, 0.2, 0.0], [0.3, 0.6, 0.1], [0.1, 0.3, 0.6]],
            [[0.6, 0.4, 0.0], [0.2, 0.6, 0.2], [0.0, 0.3, 0.7]],
            [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.0, 0.1, 0.9]],
        ]
    )
    PAY: ClassVar = np.array([[1.6, 2.0, 2.3], [1.7, 2.3, 2.7], [1.8, 2.5, 3.5]])
    COST: ClassVar = np.array([[0.0, 0.2, 0.6], [0.0, 0.4, 1.0], [0.1, 0.6, 1.5]])
    costs = ("fuel",)

    def __init__(self, n_envs: int) -> None:
        self.observation_space = Box(0, 1, (3 * self.STEPS,), np.float32)
        self.action_space = Discrete(3)
        self._at, self._steps = np.zeros((2, n_envs), np.int64)
        self._drawn = np.zeros((n_envs, self.STEPS))

    def reset(self, indices: Any, seeds: Any) -> Any:
        self._at[indices] = self._steps[indices] = 0
        self._drawn[indices] = [np.random.default_rng(seed).random(self.STEPS) for seed in seeds]
        return self._shown(indices)

    def step(self, indices: Any, actions: Any) -> Any:
        at = self._at[indices]
        paid, spent = self.PAY[at, actions], self.COST[at, actions]
        ends = self.NEXT[at, actions].cumsum(axis=1)
        drawn = self._drawn[indices, self._steps[indices]]
        self._at[indices] = np.minimum((drawn[:, None] >= ends).sum(axis=1), 2)
        self._steps[indices] += 1
        ended = self._steps[indices] == self.STEPS
        return self._shown(indices), paid, ended, np.zeros_like(ended), spent[:, None]

    def _shown(self, indices: Any) -> Any:
        steps = np.minimum(self._steps[indices], self.STEPS - 1)
        return np.eye(3 * self.STEPS, dtype=np.float32)[3 * steps + self._at[indices]]

    @classmethod
    def expected(cls, chances: Floats, of: Floats) -> float:
        """The mean of an episode's sum of `of` [3, 3]. chances: of the actions, [STEPS, 3, 3]."""
        value = np.zeros(3)
        for at_step in chances[::-1]:
            value = (at_step * (of + cls.NEXT @ value)).sum(axis=1)
        return float(value[0])

    @classmethod
    def best(cls, fuel: float) -> float:
        """The greatest mean pay of an episode whose mean cost is at most `fuel`: the least, over
        prices of fuel, of the greatest mean of pay minus price times what is spent above `fuel`
        (Altman 1999, "Constrained Markov decision processes", theorem 3.6)."""
        low, high = 0.0, 10.0
        for _ in range(100):
            price = (low + high) / 2
            pay, spent = cls._greedy(price)
            low, high = (price, high) if spent > fuel else (low, price)
        return pay + price * (fuel - spent)

    @classmethod
    def _greedy(cls, price: float) -> tuple[float, float]:
        """What the best courier earns and spends at a price of fuel."""
        chances, value = np.zeros((cls.STEPS, 3, 3)), np.zeros(3)
        for step in range(cls.STEPS)[::-1]:
            worth = cls.PAY - price * cls.COST + cls.NEXT @ value
            chances[step, range(3), worth.argmax(axis=1)] = 1
            value = worth.max(axis=1)
        return cls.expected(chances, cls.PAY), cls.expected(chances, cls.COST)
