"""Masks of actions as environments offer them: in `info`, or as an entry of a Dict observation.

Both are Gymnasium's and PettingZoo's conventions. `agents.policies.masks` says how policies see
them. Another entry, `privileged_obs`, is for a critic alone.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from workflow_rl.agents.modules import in_one_line
from workflow_rl.environments.env_batch import Env, ObservationError
from workflow_rl.environments.environment import InvalidEnvironmentError

METHOD = "action_masks"
_OTHER_METHODS = ("action_mask", "valid_action_mask", "get_action_mask", "get_action_masks")
_OTHER_KEYS = ("mask", "legal", "valid", "avail", "allowed", "possible")
MASK, PRIVILEGED = "action_mask", "privileged_obs"

ReadMask: TypeAlias = Callable[[Any], NDArray[np.bool_]]


def shows_mask(space: spaces.Space[Any]) -> bool:
    """Return whether observations have a mask as an entry."""
    return isinstance(space, spaces.Dict) and MASK in space.spaces and len(space.spaces) > 1


def without_mask(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space of observations without their mask."""
    return _without(space, MASK) if shows_mask(space) else space


def privileged_space(space: spaces.Space[Any]) -> spaces.Space[Any] | None:
    """Return the space of what only a critic sees, if observations have such an entry."""
    if not isinstance(space, spaces.Dict) or len(space.spaces) == 1:
        return None
    return space.spaces.get(PRIVILEGED)


def without_privileged(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space of what an actor may see."""
    return space if privileged_space(space) is None else _without(space, PRIVILEGED)


def _without(space: spaces.Space[Any], entry: str) -> spaces.Space[Any]:
    assert isinstance(space, spaces.Dict)
    return spaces.Dict({name: part for name, part in space.spaces.items() if name != entry})


def mask_in(obs: Any, info: Any) -> Any:
    """Return the mask that an environment offers with its answer, as it is; None without one."""
    mask = obs.get(MASK) if isinstance(obs, Mapping) else None
    return info.get(MASK) if mask is None and isinstance(info, Mapping) else mask


def choices_of(space: spaces.Space[Any] | None) -> tuple[int, ...]:
    """Return the numbers of options of each choice of an action; () for actions without masks."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiBinary):
        return (2,) * math.prod(space.shape)
    if isinstance(space, spaces.Tuple):
        parts = [choices_of(part) for part in space.spaces]
        return tuple(itertools.chain(*parts)) if all(parts) else ()
    return tuple(space.nvec.ravel().tolist()) if isinstance(space, spaces.MultiDiscrete) else ()


def offers_mask(env: Env) -> bool:
    """Return whether an environment offers masks, which its first answer shows."""
    if not choices_of(env.action_space):
        return False
    return shows_mask(env.observation_space) or mask_in(*begun(env, seed=0)) is not None


def begun(env: Env, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return the observation and the info of a reset. Raises ObservationError for other answers."""
    answer = env.reset(**options)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise ObservationError(
            f"reset gave an object of type {type(answer).__name__}, not an observation and an info"
        )
    return answer


class MaskingEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts the mask of the environment's method `action_masks`, which is sb3-contrib's convention,
    into `info`, where there is none."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = begun(self.env, **options)
        return obs, self._with_mask(obs, info)

    def step(self, action: Any) -> Any:
        """Step once. Where an episode has ended nobody acts."""
        answer = self.env.step(action)
        if not isinstance(answer, tuple) or len(answer) != 5 or any(answer[2:4]):
            return answer
        return *answer[:4], self._with_mask(answer[0], answer[4])

    def _with_mask(self, obs: Any, info: Any) -> Any:
        if mask_in(obs, info) is not None:
            return info
        try:
            return {**(info or {}), MASK: self.env.get_wrapper_attr(METHOD)()}
        except (NotImplementedError, TypeError) as error:
            raise ObservationError(
                f"its {METHOD} is no method that gives a mask ({in_one_line(error)}): train with "
                "--no-action-mask"
            ) from error


def tells_masks(env: Any) -> bool:
    """Return whether an environment has the method of a MaskingEnv."""
    takes_masks = isinstance(env, gymnasium.Env) and choices_of(getattr(env, "action_space", None))
    return bool(takes_masks) and env.has_wrapper_attr(METHOD)


def require_no_other_mask(env: Env, obs: Any, info: Any) -> None:
    """Raise InvalidEnvironmentError if an environment that offers no mask has something that looks
    like one under another name."""
    inner, names = getattr(env, "env", env), (*_OTHER_METHODS, METHOD)
    found = [name for name in names if env.has_wrapper_attr(name) or hasattr(inner, name)]
    found += _masks_in({"obs": obs, "info": info}, choices_of(env.action_space))
    if found:
        raise InvalidEnvironmentError(
            "action_mask",
            f"its {found[0]!r} looks like a mask of actions, which is read from 'action_mask' in "
            f"info or in the observation, or for one agent from a method {METHOD}: give it there, "
            "or train with --no-action-mask",
        )


def _masks_in(values: Mapping[Any, Any], sizes: Sequence[int]) -> Iterator[str]:
    """Yield the names of entries, nested ones too, that look like masks."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _masks_in(value, sizes)
        elif any(word in str(name).lower() for word in _OTHER_KEYS):
            with contextlib.suppress(ValueError):  # Of several lengths.
                if np.shape(value) and np.size(value) in (*sizes, sum(sizes)):
                    yield from [str(name)] * bool(np.isin(value, (0, 1)).all())


@contextlib.contextmanager
def naming_the_mask() -> Iterator[None]:
    """Put "the action mask" before the errors of `mask_reader`'s function, which lack a subject."""
    try:
        yield
    except ObservationError as error:
        raise ObservationError(f"the action mask {error}") from None


def mask_reader(space: spaces.Space[Any]) -> ReadMask:
    """Return a function from a mask of actions of this space to one array, bool [A].

    The mask is an array [A] of zeros and ones, or a tuple of one array for each choice. The
    function raises ObservationError, whose message begins with what is wrong with the mask.
    """
    sizes = choices_of(space)

    def read(mask: Any) -> NDArray[np.bool_]:
        nested = isinstance(mask, tuple | list) and len(sizes) > 1
        try:
            parts = [np.ravel(choice) for choice in mask] if nested else [np.ravel(mask)]
            flat = np.concatenate(parts)
        except ValueError:
            flat = np.empty(0)
        if flat.shape != (sum(sizes),):
            raise ObservationError(f"has {flat.size} numbers, not {sum(sizes)}")
        return checked_masks(flat[np.newaxis], sizes)[0]

    return read


def checked_masks(masks: NDArray[Any], sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Return masks [M, A] of zeros and ones as bool [M, A].

    sizes: the numbers of options of an action's choices, A in all. Raises ObservationError, whose
    message begins with what is wrong with a mask.
    """
    allowed: NDArray[np.bool_] = masks == 1
    wrong = masks[~allowed & (masks != 0)]
    if len(wrong):
        raise ObservationError(f"holds {wrong[0]}, not 0 or 1")
    for number, part in enumerate(np.split(allowed, np.cumsum(sizes)[:-1], axis=1)):
        if not part.any(axis=1).all():
            of = f" of choice {number}" if len(sizes) > 1 else ""
            raise ObservationError(f"forbids every action{of}")
    return allowed
