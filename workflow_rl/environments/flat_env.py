"""Gymnasium environments with flat observations, and with actions in the form of policies."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Bounds, Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    Mixed,
    MultiCategorical,
)
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.environments.action_mask import (
    MOST_OPTIONS,
    PRIVILEGED,
    begun,
    choices_of,
    inner_spaces,
    mask_in,
    mask_reader,
    maskable,
    privileged_space,
    require_choices,
    without_mask,
    without_privileged,
)
from workflow_rl.environments.answers import COSTS, as_flag, as_reward, read_costs
from workflow_rl.environments.env_batch import Env
from workflow_rl.environments.environment import ENV
from workflow_rl.errors import ConfigError, ObservationError

Flatten: TypeAlias = Callable[[Any], NDArray[Any]]
Unflatten: TypeAlias = Callable[[Any], Any]


class FlatEnv(gymnasium.Wrapper[NDArray[Any], Any, Any, Any]):
    """Shows observations as vectors [D], and takes actions as `distribution_over` samples them.

    masks: whether an observation ends with the environment's mask of actions, if there is one:
    [D + A], see `agents.policies.distributions`. The critic's further inputs come before the mask:
    see `action_mask`. The first answer decides whether the environment offers masks.

    costs: the names of the costs that each step has. `info["costs"]` is then a list of the costs.

    Raises ConfigError for a space that is not supported, and ObservationError for an observation
    that cannot be of its space, see `flattener`, and for wrong costs, see `answers.read_costs`.
    """

    def __init__(self, env: Env, masks: bool = False, costs: Sequence[str] = ()) -> None:
        super().__init__(env)
        self._steps = 0
        self.cost_names = tuple(costs)
        masked = maskable(env)
        takes_masks = masks and bool(choices_of(masked))
        self._space = env.observation_space
        shown = without_mask(self._space) if takes_masks else self._space
        privileged = privileged_space(shown)
        self._seen = shown
        if privileged is not None:
            self._seen = spaces.Tuple((without_privileged(shown), privileged))
        self.observation_space = flat_space(self._seen)
        self._flatten = self._flattening(self.observation_space.dtype)
        self._read_mask = mask_reader(masked)
        self._masks = masks
        self._offers_mask = None if takes_masks else False
        self._n_actions = sum(choices_of(masked))
        self._unflatten = unflattener(env.action_space)

    def _flattening(self, dtype: Any) -> Flatten:
        part = _part(self._seen, dtype)
        if isinstance(self._seen, spaces.Tuple) and not isinstance(self._space, spaces.Tuple):
            return lambda obs: part((obs, obs[PRIVILEGED]))
        return part

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        obs, info = begun(self.env, seed=seed, options=options)
        self._steps = 0
        if self._offers_mask is None:
            self._offers_mask = mask_in(obs, info) is not None
        return self._shown(obs, info, False), info

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        answer = self.env.step(self._unflatten(action))
        self._steps += 1
        obs, reward, terminated, truncated, info = stepped(answer, f"step {self._steps}")
        reward = as_reward(reward, "the reward of step", self._steps)
        terminated = as_flag(terminated, "terminated of step", self._steps)
        truncated = as_flag(truncated, "truncated of step", self._steps)
        if self.cost_names:
            info = {**info, COSTS: read_costs(info, self.cost_names, self._steps)}
        return self._shown(obs, info, terminated or truncated), reward, terminated, truncated, info

    def _shown(self, obs: Any, info: Mapping[str, Any], ended: bool) -> Any:
        flat = self._flat(obs)
        if not self._offers_mask:
            if self._masks and mask_in(obs, info) is not None:
                require_choices(maskable(self.env))
                raise ObservationError(
                    f"step {self._steps} gave an action mask, and reset gave none: give one with "
                    "each answer, or train with --no-action-mask"
                )
            return flat
        if ended:  # No action follows, and many environments then have no possible action.
            return np.append(flat, np.ones(self._n_actions, flat.dtype))
        of = f" of step {self._steps}"
        if (mask := mask_in(obs, info)) is None:
            raise ObservationError(f"the action mask{of} is missing")
        return np.append(flat, self._read_mask(mask, of).astype(flat.dtype))

    def _flat(self, obs: Any) -> NDArray[Any]:
        try:
            return self._flatten(obs)
        except Exception as error:
            raise _wrong(
                f"the environment's observation of step {self._steps}", error, self._space
            ) from error


class KnownEntries(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Leaves out the entries of Dict observations whose spaces are not supported.

    left_out: these entries' names, with "outer.inner" for an entry of an inner Dict.
    """

    def __init__(self, env: Env, known: spaces.Space[Any], left_out: Sequence[str]) -> None:
        super().__init__(env)
        self.observation_space, self.left_out = known, tuple(left_out)

    def observation(self, observation: Any) -> Any:
        return _known(self.observation_space, observation)


def with_known_entries(env: Env) -> Env:
    """Return an environment as KnownEntries, if an entry is left out and another entry remains."""
    names: list[str] = []
    space = getattr(env, "observation_space", None)
    known = _known_part(space, names) if isinstance(space, spaces.Dict) else None
    return env if known is None or not names else KnownEntries(env, known, names)


def _known_part(
    space: spaces.Space[Any], left_out: list[str], name: str = ""
) -> spaces.Space[Any] | None:
    """Return the supported part of a space, or None. left_out: unsupported names are added."""
    if isinstance(space, spaces.Dict):
        parts = [
            (key, _known_part(part, left_out, f"{name}.{key}".strip(".")))
            for key, part in space.spaces.items()
        ]
        kept = [(key, part) for key, part in parts if part is not None]
        return spaces.Dict(kept) if kept else None
    try:
        _require_supported(space, space)
    except ConfigError:
        left_out.append(name)
        return None
    return space


def _known(space: spaces.Space[Any], obs: Any) -> Any:
    if not isinstance(space, spaces.Dict) or not isinstance(obs, Mapping):
        return obs
    return {key: _known(part, obs[key]) for key, part in space.spaces.items() if key in obs}


def is_old(thing: object) -> bool:
    """Return whether an environment or a space is of gym, the predecessor of Gymnasium."""
    return any(kind.__module__.partition(".")[0] == "gym" for kind in type(thing).__mro__)


def require_not_old(space: object, name: str) -> None:
    """Raise ConfigError for a space of gym."""
    if is_old(space):
        raise ConfigError(
            ENV,
            f"its {name} {space} is one of gym's: gymnasium.spaces, which replaces gym.spaces, has "
            "the same classes",
        )


def stepped(answer: Any, what: str) -> tuple[Any, Any, Any, Any, Any]:
    """Return the five parts of a step's answer. Raise ObservationError for any other answer."""
    if isinstance(answer, tuple | list) and len(answer) == 5:
        return tuple(answer)
    given = f"an object of type {type(answer).__name__}"
    given = f"{len(answer)} values" if isinstance(answer, tuple) else given
    raise ObservationError(
        f"{what} gave {given}, not an observation, a reward, terminated, truncated and an info"
    )


def _wrong(what: str, error: Exception, space: spaces.Space[Any]) -> ObservationError:
    is_told = isinstance(error, ObservationError)
    how = str(error) if is_told else f"cannot be used: {in_one_line(error)}"
    return ObservationError(" ".join(f"{what} {how}; its space is {space}".split()))


def flat_space(space: spaces.Space[Any]) -> spaces.Box:
    """Return the space of flat observations [D], in the order of Gymnasium's `flatten`.

    Floats become float32, and integers from 0 to 255 become uint8. Raise ConfigError.
    """
    _require_supported(space, space)
    if not spaces.flatdim(space):
        raise ConfigError(ENV, f"its observation space {space} holds no numbers")
    flat = spaces.flatten_space(space)
    assert isinstance(flat, spaces.Box)
    dtype: Any = np.float32 if flat.dtype.kind == "f" else flat.dtype
    if flat.dtype.kind in "biu" and flat.low.min() >= 0 and flat.high.max() <= 255:
        dtype = np.uint8
    with np.errstate(over="ignore"):  # Large bounds of float64 become infinite.
        return spaces.Box(flat.low.astype(dtype), flat.high.astype(dtype), flat.shape, dtype)


def _require_supported(space: spaces.Space[Any], whole: spaces.Space[Any]) -> None:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for part in inner_spaces(space):
            _require_supported(part, whole)
        return
    plain = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
    require_not_old(space, "observation space")
    if not isinstance(space, plain):
        within = "" if space is whole else f", within {whole}"
        raise ConfigError(
            ENV,
            f"its observation space {space}{within} is not supported: Box, Discrete, MultiBinary, "
            "MultiDiscrete, and Tuple and Dict of these are"
            + "; --ignore-unknown leaves such entries of a Dict out"
            * bool(within),
        )


def flattener(space: spaces.Space[Any], dtype: Any = None, whose: str = "") -> Flatten:
    """Return a function from observations to observations of `flat_space`. dtype: another dtype
    than that of `flat_space`. whose: the agent in an error.

    The function does what Gymnasium's `flatten` does, but raises ObservationError if numbers would
    change: for another shape or kind, for an integer that would wrap around, and for a choice that
    a discrete space does not have. Raise ConfigError for an unsupported space.
    """
    flatten = _part(space, dtype or flat_space(space).dtype)

    def flattened(obs: Any) -> NDArray[Any]:
        try:
            return flatten(obs)
        except Exception as error:
            raise _wrong(f"the observation{whose and f' of {whose}'}", error, space) from error

    return flattened


def _part(space: spaces.Space[Any], dtype: Any) -> Flatten:
    """Return the function that flattens observations of a space, or of its part, to `dtype`."""
    if isinstance(space, spaces.Discrete):
        return _one_hot(space, dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hots(space, dtype)
    if isinstance(space, spaces.Dict):
        named = [(name, _part(inner, dtype)) for name, inner in space.spaces.items()]
        return lambda obs: np.concatenate([part(obs[name]) for name, part in named])
    if isinstance(space, spaces.Tuple):
        parts = [_part(inner, dtype) for inner in space.spaces]
        return lambda obs: np.concatenate([part(of) for part, of in zip(parts, obs, strict=True)])
    return _Numbers(space, dtype)


_UNKNOWN = object()


class _Numbers:
    """Flattens the numbers of a Box, or bits. dtype: float32 if the numbers of any part of the
    whole space are not integers."""

    def __init__(self, space: spaces.Space[Any], dtype: Any) -> None:
        assert space.shape is not None
        assert space.dtype is not None
        self._shape, self._sides = space.shape, tuple(side for side in space.shape if side != 1)
        self._dtype: Any = np.dtype(dtype)
        self._is_whole = space.dtype.kind != "f"
        is_asked = self._is_whole and self._dtype.kind == "f"
        self._named = space.dtype if is_asked else self._dtype
        # The dtype whose numbers need no check. With `is_asked`, the first observation sets it.
        self._harmless: Any = _UNKNOWN if is_asked else self._dtype

    def __call__(self, obs: Any) -> NDArray[Any]:
        seen = np.asarray(obs)
        if seen is not obs and np.ma.is_masked(obs):
            raise ObservationError("has masked numbers")
        # Axes of length 1 do not change the order of numbers. Any other shape changes the order.
        if seen.shape != self._shape and np.squeeze(seen).shape != self._sides:
            raise ObservationError(f"has shape {seen.shape}, not {self._shape}")
        flat = np.asarray(seen, self._dtype).ravel()
        # In most environments, the dtype is one object in all steps. So it is checked once.
        if seen.dtype is not self._harmless:
            self._require_kept(seen.ravel(), flat)
        return flat

    def _require_kept(self, seen: NDArray[Any], flat: NDArray[Any]) -> None:
        if seen.dtype.kind not in "biuf":
            raise ObservationError(f"is of {seen.dtype}, not {self._named}")
        if self._is_whole and seen.dtype.kind == "f":  # Integers may come as floats.
            changed = (seen != flat) | (seen != np.rint(seen))
        elif self._dtype.kind == "f" or np.can_cast(seen.dtype, self._dtype):
            self._harmless = seen.dtype
            return
        else:
            changed = seen != flat
        if np.count_nonzero(changed):  # This takes half the time of `any`.
            raise ObservationError(f"holds {seen[changed][0]}, which is no {self._named}")


def _one_hot(space: spaces.Discrete, dtype: Any) -> Flatten:
    n, start = int(space.n), int(space.start)

    def flatten(obs: Any) -> NDArray[Any]:
        choice = np.asarray(obs).item()
        if not 0 <= choice - start < n or choice != int(choice):
            raise ObservationError(f"holds {choice}, which is not in {space}")
        flat = np.zeros(n, dtype)
        flat[int(choice) - start] = 1
        return flat

    return flatten


def _one_hots(space: spaces.MultiDiscrete, dtype: Any) -> Flatten:
    n = space.nvec.ravel().astype(np.int64)
    start = np.broadcast_to(first_of(space), space.shape).ravel().astype(np.int64)
    first, size = np.cumsum(n) - n, int(n.sum())
    numbers = _Numbers(space, np.int64)

    def flatten(obs: Any) -> NDArray[Any]:
        choices = numbers(obs) - start
        outside = (choices < 0) | (choices >= n)
        if outside.any():
            raise ObservationError(
                f"holds {(choices + start)[outside][0]}, which is not in {space}"
            )
        flat = np.zeros(size, dtype)
        flat[first + choices] = 1
        return flat

    return flatten


def distribution_over(space: spaces.Space[Any]) -> Distribution:
    """Return the distribution over an action space. Raise ConfigError."""
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n))
    if sizes := choices_of(space):
        return MultiCategorical(sizes)
    require_not_old(space, "action space")
    arrays = spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary
    if isinstance(space, arrays) and not spaces.flatdim(space):
        raise ConfigError(ENV, f"its action space {space} holds no numbers")
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        return _gaussian_over(space)
    if isinstance(space, spaces.Tuple | spaces.Dict) and inner_spaces(space):
        parts = [distribution_over(part) for part in inner_spaces(space)]
        flat = [part.parts if isinstance(part, Mixed) else (part,) for part in parts]
        return Mixed(tuple(itertools.chain(*flat)))
    raise ConfigError(
        ENV,
        f"its action space {space} is not supported: Discrete, MultiDiscrete, MultiBinary, Box of "
        f"integers with up to {MOST_OPTIONS} values each, Box of floats, and Tuple and Dict of "
        "these are",
    )


_LARGEST = 1e15
_LEAST_SHARE = 2**-13
"""The least half width of bounds, as a share of their middle: a thousand numbers of float32."""


def _gaussian_over(space: spaces.Box) -> DiagonalGaussian:
    """Return the Gaussian that is scaled to the bounds of numbers with two bounds. Environments use
    float32's largest number to mean that there is no bound. Raise ConfigError."""
    low, high = (ends.ravel().astype(np.float64) for ends in (space.low, space.high))
    ends = tuple(low.tolist()), tuple(high.tolist())
    is_bounded = (np.maximum(np.abs(low), np.abs(high)) < _LARGEST) & (high > low + 1 / _LARGEST)
    low, high = np.where(is_bounded, low, -1), np.where(is_bounded, high, 1)
    middle, half_width = (high + low) / 2, (high - low) / 2
    if (narrow := half_width < _LEAST_SHARE * np.abs(middle)).any():
        raise ConfigError(
            ENV,
            f"its actions from {float(low[narrow][0])} to {float(high[narrow][0])} are too close "
            "for float32: let them be from -1 to 1, and scale them in the environment",
        )
    scale: Bounds = (), ()
    if middle.any() or (half_width != 1).any():
        scale = tuple(middle.tolist()), tuple(half_width.tolist())
    return DiagonalGaussian(len(low), *scale, *ends)


def unflattener(space: spaces.Space[Any], is_batch: bool = False) -> Unflatten:
    """Return a function from a sampled action to an action of the space. The function changes the
    shape, and adds the space's start or clips to its bounds. is_batch: it takes M actions."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        if is_batch:
            return lambda actions: start + np.asarray(actions, np.int64)
        return lambda action: start + int(action)
    if isinstance(space, spaces.Tuple | spaces.Dict):
        parts: list[tuple[Unflatten, int | slice]] = []
        end = 0
        for part in inner_spaces(space):
            begin, end = end, end + distribution_over(part).n_numbers
            chosen = begin if isinstance(part, spaces.Discrete) else slice(begin, end)
            parts.append((unflattener(part), chosen))
        if isinstance(space, spaces.Tuple):
            return lambda action: tuple(of(action[chosen]) for of, chosen in parts)
        named = list(zip(space.spaces, parts, strict=True))
        return lambda action: {name: of(action[chosen]) for name, (of, chosen) in named}
    assert isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box)
    shape, dtype = (*[-1] * is_batch, *space.shape), space.dtype
    if isinstance(space, spaces.MultiBinary):
        return lambda action: np.reshape(action, shape).astype(dtype)
    if isinstance(space, spaces.MultiDiscrete) or choices_of(space):
        first = first_of(space)
        return lambda action: (np.reshape(action, shape) + first).astype(dtype)
    low, high = space.low, space.high
    return lambda action: np.asarray(np.clip(np.reshape(action, shape), low, high), dtype)


def first_of(space: spaces.Space[Any]) -> Any:
    """Return the smallest action of a space of choices, but not of a Tuple or Dict."""
    return space.low if isinstance(space, spaces.Box) else getattr(space, "start", 0)


def sampled(space: spaces.Space[Any], mask: Any) -> Any:
    """Return a random action of a space that the mask allows, in the form that workers pass to
    environments: Python's integers for Discrete. mask: may be None."""
    sizes = choices_of(space)
    if isinstance(space, spaces.Tuple) and not sizes and mask is not None:
        # A team in which some agents' actions are choices, and others' are not.
        of_parts = [choices_of(part) for part in space.spaces]
        masks = np.split(mask, np.cumsum([sum(of) for of in of_parts])[:-1])
        told = zip(space.spaces, of_parts, masks, strict=True)
        return tuple(sampled(part, mask if of else None) for part, of, mask in told)
    if not sizes:
        return space.sample()
    if mask is None:
        allowed = np.ones(sum(sizes), np.int8)
    else:
        allowed = mask_reader(space)(mask).astype(np.int8)
    if isinstance(space, spaces.Discrete):
        return int(space.sample(None if mask is None else allowed))
    parts = np.split(allowed, np.cumsum(sizes)[:-1])
    # Gymnasium's `sample` would need masks that are nested like the space.
    chosen = [space.np_random.choice(np.flatnonzero(part)) for part in parts]
    return unflattener(space)(np.array(chosen))
