"""Small Gymnasium environments of every kind of space, and ones that cannot be used. No torch."""

import math
import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from workflow_rl.environments.gymnasium_versions import MultiDiscrete

Result = tuple[Any, float, bool, bool, dict[str, Any]]


class TargetEnv(gymnasium.Env[Any, Any]):
    """The reward is -|action - target|^2, and the target half of what is observed.

    Truncated after `length` steps. Observations are up to `scale` large, around `offset`.
    """

    def __init__(self, length: int = 8, offset: float = 0.0, scale: float = 1.0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self._length, self._offset, self._scale = length, offset, scale
        self._steps = 0
        self._shown = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action: Any) -> Result:
        assert self.action_space.contains(action), action
        reward = -float(np.square(action - self._shown / 2).sum())
        self._steps += 1
        return self._show(), reward, False, self._steps == self._length, {}

    def _show(self) -> Any:
        self._shown = self.np_random.uniform(-1, 1, 2)
        return (self._offset + self._scale * self._shown).astype(np.float32)


class PuzzleEnv(gymnasium.Env[Any, Any]):
    """Several choices at once, and observations of several parts, which depend on all before.

    The seed decides how many steps an episode has, `shortest` to `longest`, and how it ends.
    """

    def __init__(self, shortest: int = 2, longest: int = 9) -> None:
        self.observation_space = spaces.Dict(
            {
                "clock": spaces.Discrete(longest + 1),
                "hand": spaces.Box(-1, 1, (2,), np.float64),
                "lamps": spaces.MultiBinary(3),
            }
        )
        self.action_space = MultiDiscrete([3, 2], start=[1, 0])
        # The lamps, which stand at the end of a flat observation.
        first = longest + 3
        self.entities = {
            "features": [[first], [first + 1], [first + 2]],
            "actions": [[0, 0], [0, 1], [0, 2], [0, -1], [1, -1]],
        }
        self._lengths = (shortest, longest)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._length = int(self.np_random.integers(self._lengths[0], self._lengths[1] + 1))
        self._terminates = bool(self.np_random.integers(2))
        self._steps, self._state = 0, int(self.np_random.integers(1000))
        return self._obs(), {}

    def step(self, action: Any) -> Result:
        assert self.action_space.contains(action), action
        assert self._steps < self._length, "the episode has ended"
        self._steps += 1
        lamp, direction = action.tolist()
        reward = float(lamp == 1 + self._state % 3) - 0.1 * direction
        self._state = (31 * self._state + 7 * lamp + direction) % 1009
        ended = self._steps == self._length
        return self._obs(), reward, ended and self._terminates, ended and not self._terminates, {}

    def _obs(self) -> dict[str, Any]:
        angle = 2 * math.pi * self._state / 1009
        lamps = np.array([self._state >> bit & 1 for bit in range(3)], np.int8)
        hand = np.array([math.cos(angle), math.sin(angle)])
        return {"clock": self._steps, "hand": hand, "lamps": lamps}


class MaskedPuzzleEnv(PuzzleEnv):
    """A PuzzleEnv in which one lamp is impossible at each step, and at times a direction.

    in_obs: whether the mask is an entry of the observation, an array, or in `info`, an array for
    each choice. forbids_all_at: the step at which the mask of episodes that last longer forbids
    everything. missing_at: the step without a mask. privileged: whether an entry of the observation
    tells a critic the state.
    """

    def __init__(
        self,
        in_obs: bool = False,
        forbids_all_at: int = -1,
        missing_at: int = -1,
        privileged: bool = False,
        **args: Any,
    ) -> None:
        super().__init__(**args)
        self._privileged = privileged
        self._in_obs, self._forbids_all_at, self._missing_at = in_obs, forbids_all_at, missing_at
        if in_obs:
            shown = dict(self.observation_space.spaces)
            self.observation_space = spaces.Dict({**shown, "action_mask": spaces.MultiBinary(5)})
        if privileged:
            shown = dict(self.observation_space.spaces)
            of_critic = spaces.Box(0, 1009, (1,), np.float32)
            self.observation_space = spaces.Dict({**shown, "privileged_obs": of_critic})

    @property
    def mask(self) -> tuple[np.ndarray, np.ndarray]:
        """Which lamps and which directions are possible now."""
        lamps, directions = np.ones(3, np.int8), np.ones(2, np.int8)
        lamps[self._state % 3] = 0
        directions[1] = self._state % 5 > 0
        if self._steps == self._forbids_all_at:
            directions[:] = 0
        return lamps, directions

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._masked(*super().reset(seed=seed, options=options))

    def step(self, action: Any) -> Result:
        lamps, directions = self.mask
        assert lamps[action[0] - 1], "an impossible lamp"
        assert directions[action[1]], "an impossible direction"
        obs, *outcome, info = super().step(action)
        obs, info = self._masked(obs, info)
        return obs, *outcome, info

    def _masked(self, obs: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if self._privileged:
            obs = {**obs, "privileged_obs": np.array([self._state], np.float32)}
        if self._steps == self._missing_at:
            return obs, info
        if self._in_obs:
            return {**obs, "action_mask": np.concatenate(self.mask)}, info
        return obs, {**info, "action_mask": self.mask}


class NamedPuzzleEnv(MaskedPuzzleEnv):
    """A MaskedPuzzleEnv whose actions have names, as the parts of its mask, of a method."""

    def __init__(self) -> None:
        super().__init__()
        lamp, direction = spaces.Box(1, 3, (1,), np.int32), spaces.Discrete(2)
        self.action_space: Any = spaces.Dict([("lamp", lamp), ("direction", direction)])
        self._direct = MultiDiscrete([3, 2], start=[1, 0])

    def get_action_mask(self) -> dict[str, Any]:
        return dict(zip(("lamp", "direction"), self.mask, strict=True))

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**options)[0], {}

    def step(self, action: Any) -> Result:
        assert self.action_space.contains(action), action
        assert type(action["direction"]) is int
        named, self.action_space = self.action_space, self._direct
        *answer, _ = super().step(np.array([*action["lamp"], action["direction"]]))
        self.action_space = named
        return *answer, {}  # type: ignore[return-value]


class EndingEnv(gymnasium.Env[Any, Any]):
    """One step of reward 1: then the episode has terminated, or is truncated."""

    def __init__(self, terminates: bool) -> None:
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._terminates = terminates

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Result:
        return np.ones(1, np.float32), 1.0, self._terminates, not self._terminates, {}


class TextEnv(TargetEnv):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Text(5)  # type: ignore[assignment]


class Private:
    """What no space of Gymnasium's describes."""


class PrivateSpace(spaces.Space[Any]):
    def contains(self, x: Any) -> bool:
        return isinstance(x, Private)


class TalkingPuzzleEnv(PuzzleEnv):
    """A PuzzleEnv that also shows what is no numbers, some of it within a Dict."""

    def __init__(self) -> None:
        super().__init__()
        said = spaces.Dict({"words": spaces.Text(5), "loud": spaces.Discrete(2)})
        further = {"a": PrivateSpace(), "said": said, "z": spaces.Sequence(spaces.Discrete(2))}
        self.observation_space = spaces.Dict({**self.observation_space.spaces, **further})

    def _obs(self) -> dict[str, Any]:
        said = {"words": "hello", "loud": self._state % 2}
        return {**super()._obs(), "a": Private(), "said": said, "z": (0, 1)}


class LoudPuzzleEnv(PuzzleEnv):
    """A TalkingPuzzleEnv without what is no numbers."""

    def __init__(self) -> None:
        super().__init__()
        said = spaces.Dict({"loud": spaces.Discrete(2)})
        self.observation_space = spaces.Dict({**self.observation_space.spaces, "said": said})

    def _obs(self) -> dict[str, Any]:
        return {**super()._obs(), "said": {"loud": self._state % 2}}


class PictureEnv(gymnasium.Env[Any, Any]):
    """A white spot in one of the four quarters of a dark picture: the reward is 1 for the quarter.

    shown: "last" or "first", where the channels of the picture are, or "beside" numbers. actions:
    "number" (from 1), "tuple" or "bits" (of the row and the column).
    """

    def __init__(self, shown: str = "last", actions: str = "number", length: int = 4) -> None:
        shape = (3, 8, 8) if shown == "first" else (8, 8, 3)
        picture = spaces.Box(0, 255, shape, np.uint8)
        numbers = spaces.Box(-1000, 1000, (2,), np.float32)
        self.observation_space = picture
        if shown == "beside":
            self.observation_space = spaces.Dict({"a": numbers, "b": picture, "c": numbers})
        row, column = spaces.Discrete(2), spaces.Discrete(2, start=1)
        self.action_space: Any = {
            "number": spaces.Discrete(4, start=1),
            "tuple": spaces.Tuple([row, column]),
            "bits": spaces.MultiBinary(2),
        }[actions]
        self._shown, self._actions, self._length = shown, actions, length

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action: Any) -> Result:
        assert self.action_space.contains(action), action
        row, column = self._quarter
        right: Any = {
            "number": 1 + 2 * row + column,
            "tuple": (row, 1 + column),
            "bits": [row, column],
        }[self._actions]
        reward = float(np.array_equal(action, right))
        self._steps += 1
        return self._show(), reward, False, self._steps == self._length, {}

    def _show(self) -> Any:
        y, x = self.np_random.integers(8, size=2).tolist()
        picture = self.np_random.integers(0, 40, (8, 8, 3)).astype(np.uint8)
        picture[y, x] = 255
        self._quarter = y // 4, x // 4
        if self._shown == "beside":
            numbers = self.np_random.uniform(-1000, 1000, 2).astype(np.float32)
            return {"a": numbers, "b": picture, "c": -numbers}
        return picture.transpose(2, 0, 1) if self._shown == "first" else picture


class NamedActionEnv(TargetEnv):
    """Its actions are of a kind that no distribution here is over."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Dict({"push": spaces.Text(4)})  # type: ignore[assignment]


class BrokenEnv(TargetEnv):
    def __init__(self) -> None:
        raise OSError("the licence server is down\nand has been for hours")


class FailingResetEnv(TargetEnv):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        raise OSError("the map is missing")


def sized_target(length: int = 8, scale: float = 1.0) -> TargetEnv:
    return TargetEnv(length=length, scale=scale)


def any_size(size: Any = None) -> TargetEnv:
    """A function that makes an environment, whatever it is told."""
    return TargetEnv()


def no_env() -> Any:
    return "an environment"


gymnasium.register("tests/Target-v0", TargetEnv)
gymnasium.register("tests/Broken-v0", BrokenEnv)


class SlowResetEnv(TargetEnv):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        time.sleep(self._seconds)
        return super().reset(**options)


class SuspendingEnv(TargetEnv):
    """Takes a while to be made. A process (0: none) is stopped meanwhile, as a suspended job is."""

    def __init__(self, seconds: float, pid: int = 0) -> None:
        super().__init__()
        if pid:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        if pid:
            os.kill(pid, signal.SIGCONT)


class SlowEnv(gymnasium.Env[Any, Any]):
    """Steps that wait 5 ms, and episodes of 10 to 500 of them, as the seed decides."""

    def __init__(self, step_seconds: float = 0.005) -> None:
        self.observation_space = spaces.Box(0, 1, (8,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._step_seconds = step_seconds
        self._steps_left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps_left = int(self.np_random.integers(10, 501))
        return self._obs(), {}

    def step(self, action: Any) -> Result:
        time.sleep(self._step_seconds)
        self._steps_left -= 1
        return self._obs(), float(action == 0), False, self._steps_left == 0, {}

    def _obs(self) -> Any:
        return self.np_random.random(8, np.float32)


class SeedEnv(gymnasium.Env[Any, Any]):
    """One step, whose reward is the seed, from 0 to 1. Episodes of the `broken` seeds raise, and
    the reward of the `unknown` seeds is NaN."""

    def __init__(
        self, broken: frozenset[int] = frozenset(), unknown: frozenset[int] = frozenset()
    ) -> None:
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._broken, self._unknown = broken, unknown

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed in self._broken:
            raise ArithmeticError("the coin stands on its edge\nnobody knows why")
        self._reward = math.nan if seed in self._unknown else (seed or 0) / 2**32
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Result:
        return np.zeros(1, np.float32), self._reward, False, True, {}
