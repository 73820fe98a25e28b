"""Environments of all kinds that say the same numbers in other types and shapes. No torch.

A guise turns a number, a flag or an array into what a user's environment may give in its place.
"""

import fractions
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from workflow_rl.environments import BatchedEnv, BatchedTeamEnv, TeamStep

Guise = Callable[[Any], Any]
AGENTS = ("a", "b", "c")
LENGTH = 3


class Tensor:
    def __init__(self, array: Any) -> None:
        self._array = np.asarray(array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array


def _dtypes(names: str) -> dict[str, Guise]:
    return {
        name: lambda value, name=name: np.asarray(value).astype(name)[()] for name in names.split()
    }


DTYPES = _dtypes("bool int8 uint8 int16 uint16 int32 uint64 float16 float32 float64 longdouble")
DTYPES |= _dtypes(">f8 >i2 complex64 object str S3")
NUMBERS: dict[str, Guise] = {
    **DTYPES,
    "float": float,
    "int": int,
    "fraction": fractions.Fraction,
    "array": np.array,
    "array of >f4": lambda value: np.array(value, ">f4"),
    "masked array": lambda value: np.ma.array(value),
    "no number": lambda value: np.ma.masked,
    "array (1,)": lambda value: np.array([value]),
    "list": lambda value: [value],
    "None": lambda value: None,
    "text": str,
    "tensor": Tensor,
    "huge": lambda value: 10**400,
}
FLAGS: dict[str, Guise] = {**NUMBERS, "plain": bool, "two": lambda flag: 2 * flag}
ARRAYS: dict[str, Guise] = {
    **DTYPES,
    "list": lambda array: array.tolist(),
    "tuple": lambda array: tuple(array.tolist()) if array.ndim else array.item(),
    "strided": lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
    "columns first": np.asfortranarray,
    "read-only": lambda array: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape),
    "masked array": lambda array: np.ma.array(array),
    "no numbers": lambda array: np.ma.array(array, mask=True),
    "in a row": lambda array: array[None],
    "in a column": lambda array: array[..., None],
    "transposed": lambda array: array.T,
    "flat": np.ravel,
    "upside down": lambda array: array.reshape(array.shape[::-1]),
    "short": lambda array: array[..., :-1] if array.ndim else array,
    "tensor": Tensor,
    "text": lambda array: "x",
    "None": lambda array: None,
}
SHAPES: dict[str, spaces.Space[Any]] = {
    "vector": spaces.Box(-9, 9, (4,), np.float32),
    "number": spaces.Box(-9, 9, (), np.float64),
    "table": spaces.Box(0, 9, (2, 3), np.float32),
    "image": spaces.Box(0, 255, (3, 2, 2), np.uint8),
    "whole": spaces.Box(-9, 9, (2, 3), np.int64),
    "bits": spaces.MultiBinary([2, 3]),
    "choice": spaces.Discrete(3, start=-1),
    "choices": spaces.MultiDiscrete([3, 2]),
}
SHAPES["named"] = spaces.Dict({name: SHAPES[name] for name in ("table", "choice")})
SHAPES["listed"] = spaces.Tuple([SHAPES[name] for name in ("image", "bits")])


def guised(space: spaces.Space[Any], obs: Any, guise: str) -> Any:
    """An observation of a space, with all its parts in a guise."""
    if isinstance(space, spaces.Dict):
        return {name: guised(part, obs[name], guise) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(guised(part, of, guise) for part, of in zip(space, obs, strict=True))
    return ARRAYS[guise](np.asarray(obs, space.dtype)) if guise in ARRAYS else obs


class Script:
    """What an episode shows and pays. worth: of the rewards that are not 0."""

    def __init__(self, shape: str, seed: int, worth: float, guises: dict[str, str]) -> None:
        self.space, self.worth = SHAPES[shape], worth
        self.random = np.random.default_rng(seed)
        self.guises = guises

    def obs(self) -> Any:
        self.space.seed(int(self.random.integers(2**31)))
        obs = _whole(self.space, self.space.sample())
        return guised(self.space, obs, self.guises.get("obs", ""))

    def reward(self) -> Any:
        reward = self.worth * int(self.random.integers(4) > 0)
        return NUMBERS[self.guises.get("reward", "float")](reward)

    def flag(self, flag: bool) -> Any:
        return FLAGS[self.guises.get("flag", "plain")](flag)

    def mask(self) -> Any:
        mask = np.append(1, self.random.integers(2, size=2)).astype(np.int8)
        return ARRAYS[self.guises.get("mask", "int8")](mask)


def _whole(space: spaces.Space[Any], obs: Any) -> Any:
    """Numbers that every dtype has, where the space has them."""
    if isinstance(space, spaces.Dict):
        return {name: _whole(part, obs[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_whole(part, of) for part, of in zip(space, obs, strict=True))
    return np.asarray(np.abs(obs) % 3 // 1, space.dtype) if isinstance(space, spaces.Box) else obs


class Single(gymnasium.Env[Any, Any]):
    def __init__(self, shape: str, worth: float, masked: bool = True, **guises: str) -> None:
        self.told = shape, worth, guises
        self.masked = masked
        self.observation_space, self.action_space = SHAPES[shape], spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        shape, worth, guises = self.told
        self.script, self.steps = Script(shape, seed or 0, worth, guises), 0
        return self.script.obs(), self._info()

    def step(self, action: Any) -> Any:
        self.steps += 1
        ended, script = self.steps == LENGTH, self.script
        return script.obs(), script.reward(), script.flag(False), script.flag(ended), self._info()

    def _info(self) -> Any:
        return {"action_mask": self.script.mask()} if self.masked else {}


class Together:
    possible_agents = AGENTS

    def __init__(self, shape: str, worth: float, masked: bool = True, **guises: str) -> None:
        self.told = shape, worth, guises
        self.masked, self.agents = masked, list(AGENTS)

    def observation_space(self, agent: str) -> Any:
        return SHAPES[self.told[0]]

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        shape, worth, guises = self.told
        self.script, self.steps = Script(shape, seed or 0, worth, guises), 0
        self.agents = list(AGENTS)
        return self._each(self.script.obs), self._each(self._info)

    def step(self, actions: Any) -> Any:
        self.steps += 1
        ended, script = self.steps == LENGTH, self.script
        obs, rewards = self._each(script.obs), self._each(script.reward)
        ends = [self._each(lambda flag=flag: script.flag(flag)) for flag in (False, ended)]
        infos = self._each(self._info)
        self.agents = [] if ended else self.agents
        return obs, rewards, *ends, infos

    def _each(self, part: Callable[[], Any]) -> dict[str, Any]:
        return {agent: part() for agent in AGENTS}

    def _info(self) -> Any:
        return {"action_mask": self.script.mask()} if self.masked else {}


class InTurn(Together):
    """The same, as an AECEnv: each turn pays all."""

    metadata: ClassVar[dict[str, Any]] = {}
    agent_iter: Any = None
    render_mode = None

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        _, self.infos = super().reset(seed)
        self.agent_selection, self.turns = "a", 0
        self._say(False)

    def _say(self, ended: bool) -> None:
        script = self.script
        self.rewards = self._each(script.reward)
        self.terminations = self._each(lambda: script.flag(False))
        self.truncations = self._each(lambda: script.flag(ended))
        self.infos = self._each(self._info)

    def observe(self, agent: str) -> Any:
        return self.script.obs()

    def last(self) -> Any:
        return None, 0.0, False, False, {}

    def close(self) -> None:
        pass

    def step(self, action: Any) -> None:
        if action is None:
            self.agents.remove(self.agent_selection)
            self.agent_selection = self.agents[0] if self.agents else ""
            return
        self.turns += 1
        self.agent_selection = AGENTS[self.turns % 3]
        self._say(self.turns == 3 * LENGTH)


class AtOnce(InTurn):
    """The same, for PettingZoo's own conversion."""

    metadata: ClassVar[dict[str, Any]] = {"is_parallelizable": True, "name": "at once"}


class Many(BatchedEnv):
    """Many of one agent's."""

    action_space = spaces.Discrete(3)

    observation_space = SHAPES["vector"]
    n_agents = 1

    def __init__(self, n_envs: int, shape: str, worth: float, **guises: str) -> None:
        self.worth, self.guises = worth, guises
        self.scripts: dict[int, Script] = {}
        self.steps = np.zeros(n_envs, int)

    def reset(self, indices: Any, seeds: Any) -> Any:
        self.steps[indices] = 0
        pairs = zip(indices.tolist(), seeds.tolist(), strict=True)
        self.scripts |= {env: Script("vector", seed, self.worth, {}) for env, seed in pairs}
        return self._each("obs", indices)

    def step(self, indices: Any, actions: Any) -> Any:
        self.steps[indices] += 1
        obs, reward = self._each("obs", indices), self._each("reward", indices)
        ended = self.steps[indices] == LENGTH
        return obs, reward, self._guise("flag")(np.zeros_like(ended)), self._guise("flag")(ended)

    def action_masks(self, indices: Any) -> Any:
        return self._each("mask", indices)

    def _each(self, part: str, indices: Any) -> Any:
        several = range(self.n_agents)
        rows = [[getattr(self.scripts[env], part)() for _ in several] for env in indices.tolist()]
        whole = np.array(rows)
        together = whole[:, 0] if self.n_agents == 1 else whole
        if part != "reward":
            together = together.reshape(len(rows), -1)
        return self._guise(part)(together)

    def _guise(self, part: str) -> Guise:
        return ARRAYS.get(self.guises.get(part, ""), np.asarray)


class ManyTeams(Many, BatchedTeamEnv):
    observation_spaces: ClassVar = dict.fromkeys(AGENTS, SHAPES["vector"])
    action_spaces: ClassVar = dict.fromkeys(AGENTS, spaces.Discrete(3))
    n_agents = len(AGENTS)

    def reset(self, indices: Any, seeds: Any) -> Any:
        return super().reset(indices, seeds), np.full((len(indices), self.n_agents), self.ACTS)

    def step(self, indices: Any, actions: Any) -> Any:
        obs, *others = super().step(indices, actions)
        ended = self.steps[indices, None] == LENGTH
        status = np.where(ended, self.CUT_OFF, np.full((1, self.n_agents), self.ACTS))
        return TeamStep(obs, status, *others)
