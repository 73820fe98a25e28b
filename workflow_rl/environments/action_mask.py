"""Masks of actions as environments offer them: in `info`, as an entry of a Dict observation, or by
a method.

Masks in `info` or in observations are conventions of Gymnasium and PettingZoo. A method
`action_masks` is the convention of sb3-contrib. See `agents.policies.distributions` for how
policies see masks. Another entry of observations, `privileged_obs`, is only for a critic.
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.environments.env_batch import Env
from workflow_rl.environments.gymnasium_versions import attribute_of
from workflow_rl.errors import ConfigError, ObservationError

METHOD = "action_masks"
METHODS = (METHOD, "action_mask", "valid_action_mask", "get_action_mask", "get_action_masks")
_OTHER_KEYS = ("mask", "legal", "valid", "avail", "allowed", "possible")
MASK, MASKS, PRIVILEGED = "action_mask", "action_masks", "privileged_obs"
MOST_OPTIONS = 1024
"""The most options of an integer that is a choice. Integers with larger ranges are amounts."""

ReadMask: TypeAlias = Callable[..., NDArray[np.bool_]]
"""See `mask_reader`."""


def shows_mask(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Dict) and MASK in space.spaces and len(space.spaces) > 1


def without_mask(space: spaces.Space[Any]) -> spaces.Space[Any]:
    return _without(space, MASK) if shows_mask(space) else space


def privileged_space(space: spaces.Space[Any]) -> spaces.Space[Any] | None:
    """Return the space of the entry that only a critic sees; None without this entry."""
    if not isinstance(space, spaces.Dict) or len(space.spaces) == 1:
        return None
    return space.spaces.get(PRIVILEGED)


def without_privileged(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space of the observations that an actor may see."""
    return space if privileged_space(space) is None else _without(space, PRIVILEGED)


def _without(space: spaces.Space[Any], entry: str) -> spaces.Space[Any]:
    assert isinstance(space, spaces.Dict)
    return spaces.Dict({name: part for name, part in space.spaces.items() if name != entry})


def mask_in(obs: Any, info: Any) -> Any:
    """Return the mask in an environment's answer, unchanged; None without a mask."""
    mask = obs.get(MASK) if isinstance(obs, Mapping) else None
    if mask is None and isinstance(info, Mapping):
        mask = info.get(MASK)
        return info.get(MASKS) if mask is None else mask
    return mask


def choices_of(space: spaces.Space[Any] | None) -> tuple[int, ...]:
    """Return the number of options of each choice of an action; () if actions take no masks."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiBinary):
        return (2,) * math.prod(space.shape)
    if isinstance(space, spaces.Tuple | spaces.Dict):
        return choices_within(space) if all(map(choices_of, inner_spaces(space))) else ()
    if isinstance(space, spaces.Box) and space.dtype.kind in "iu":
        ends = zip(space.high.ravel().tolist(), space.low.ravel().tolist(), strict=True)
        sizes = tuple(high - low + 1 for high, low in ends)
        return sizes if sizes and max(sizes) <= MOST_OPTIONS else ()
    return tuple(space.nvec.ravel().tolist()) if isinstance(space, spaces.MultiDiscrete) else ()


def choices_within(space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the number of options of each choice. Actions may also hold real numbers."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        return tuple(itertools.chain(*map(choices_within, inner_spaces(space))))
    return choices_of(space)


def require_choices(space: spaces.Space[Any], whose: str = "its") -> None:
    """Raise ObservationError if actions of this space take no mask. whose: whose actions."""
    if not choices_of(space):
        told = " ".join(str(space).split())
        raise ObservationError(
            f"{whose} actions {told} hold real numbers and take no action mask: let all be "
            "choices, such as in a MultiDiscrete, or train with --no-action-mask"
        )


def maskable(env: Env) -> spaces.Space[Any]:
    """Return the space of the actions that have masks. In a team, this is the space of the agents
    whose actions are choices."""
    space: spaces.Space[Any] = attribute_of(env, "masked_actions", env.action_space)
    return space


def flat_mask(mask: Any) -> NDArray[Any]:
    """Return a mask as one array. The mask may be a tuple with an array for each choice."""
    parts = mask if isinstance(mask, tuple | list) and len(mask) else (mask,)
    return np.concatenate([*map(np.ravel, parts)]) if len(parts) > 1 else np.asarray(mask)


def inner_spaces(space: spaces.Space[Any]) -> Sequence[spaces.Space[Any]]:
    """Return the spaces of the parts of a Tuple or a Dict, in order."""
    if isinstance(space, spaces.Dict):
        return tuple(space.spaces.values())
    assert isinstance(space, spaces.Tuple)
    return space.spaces


def mask_source(env: Env) -> str:
    """Return the place that an environment's masks are read from, by its first answer; "" if the
    environment offers no masks."""
    if not choices_of(maskable(env)):
        return ""
    if shows_mask(env.observation_space):
        return "its observations"
    if mask_in(*begun(env, seed=0)) is None:
        return ""
    if method := attribute_of(env, "mask_method"):
        return f"its method {method}"
    is_team = attribute_of(env, "masked_actions") is not None
    return "its agents' action_mask" if is_team else "what it tells in info"


def begun(env: Env, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return the observation and the info of a reset. Raises ObservationError for other answers."""
    answer = env.reset(**options)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise ObservationError(
            f"reset gave an object of type {type(answer).__name__}, not an observation and an info"
        )
    return answer


class MaskingEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts the mask of a method of the environment into `info`, if an answer has no mask.

    mask_method: the name of the method or attribute: `action_masks`, or a similar name whose mask
        fits the actions after the first reset; "" without such a method.
    """

    mask_method: str | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        obs, info = begun(self.env, seed=seed, options=options)
        if self.mask_method is None:
            self.mask_method = self._found() if mask_in(obs, info) is None else ""
        return obs, self._with_mask(obs, info)

    def _found(self) -> str:
        read = mask_reader(self.env.action_space)
        for name in _masks_of(self.env):
            if name == METHOD:
                return name
            with contextlib.suppress(Exception):
                read(_told_by(self.env, name))
                return name
        return ""

    def step(self, action: Any) -> Any:
        """Step once. After the end of an episode, there is no mask."""
        answer = self.env.step(action)
        if not isinstance(answer, tuple) or len(answer) != 5 or any(answer[2:4]):
            return answer
        return *answer[:4], self._with_mask(answer[0], answer[4])

    def _with_mask(self, obs: Any, info: Any) -> Any:
        if not self.mask_method or mask_in(obs, info) is not None:
            return info
        try:
            told = attribute_of(self.env, self.mask_method)
            is_called = self.mask_method == METHOD or callable(told)
            return {**(info or {}), MASK: told() if is_called else told}
        except (NotImplementedError, TypeError) as error:
            raise ObservationError(
                f"its {self.mask_method} is no method that gives a mask ({in_one_line(error)}): "
                "train with --no-action-mask"
            ) from error


def _masks_of(env: Any) -> Iterator[str]:
    return (name for name in METHODS if attribute_of(env, name) is not None)


def _told_by(env: Env, name: str) -> Any:
    told = attribute_of(env, name)
    return told() if callable(told) else told


def tells_masks(env: Any) -> bool:
    """Return whether an environment has a method or attribute that a MaskingEnv may use."""
    takes_masks = isinstance(env, gymnasium.Env) and choices_of(getattr(env, "action_space", None))
    return bool(takes_masks) and any(_masks_of(env))


def require_no_other_mask(env: Env, obs: Any, info: Any) -> None:
    """Raise ConfigError if an environment offers no mask, but has a value that looks like a mask
    under another name."""
    inner = getattr(env, "env", env)
    found = [name for name in _masks_of(inner) if not _has_none_here(inner, name)]
    found += _masks_in({"obs": obs, "info": info}, choices_within(env.action_space))
    if found:
        if not choices_of(maskable(env)):
            require_choices(env.action_space)
        raise ConfigError(
            "action_mask",
            f"its {found[0]!r} looks like a mask of actions, which is read from 'action_mask' in "
            f"info or in the observation, or for one agent from a method {METHOD}: give it there, "
            "or train with --no-action-mask",
        )


def _has_none_here(inner: Any, name: str) -> bool:
    """Return whether a method fails, as some methods do if the actions are not choices."""
    try:
        attribute_of(inner, name)()
    except TypeError:  # The method takes arguments, or the attribute is no method.
        return False
    except Exception:
        return True
    return False


def _masks_in(values: Mapping[Any, Any], sizes: Sequence[int]) -> Iterator[str]:
    """Yield the names of entries that look like masks. Entries of nested mappings count, too."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _masks_in(value, sizes)
        elif any(word in str(name).lower() for word in _OTHER_KEYS):
            with contextlib.suppress(ValueError):  # The value may have parts of several lengths.
                if np.shape(value) and np.size(value) in (*sizes, sum(sizes)):
                    yield from [str(name)] * bool(np.isin(value, (0, 1)).all())


def mask_reader(space: spaces.Space[Any]) -> ReadMask:
    """Return a function that turns a mask of actions of this space into one array, bool [A].

    The mask is an array [A] of zeros and ones, a tuple of one array for each choice, or nested like
    a Tuple or Dict space. The function raises ObservationError. Its second argument names the
    answer that has the mask, such as " of step 3".
    """
    sizes = choices_of(space)

    def read(mask: Any, of: str = "") -> NDArray[np.bool_]:
        name = f"the action mask{of}"
        try:
            flat = np.concatenate([*_parts_of_mask(space, mask)])
        except KeyError as error:
            raise ObservationError(f"{name} has no entry {error}") from None
        except ValueError:
            flat = np.empty(0)
        if flat.shape != (sum(sizes),):
            raise ObservationError(f"{name} has {flat.size} numbers, not {sum(sizes)}")
        return checked_masks(flat[np.newaxis], sizes, name)[0]

    return read


def _parts_of_mask(space: spaces.Space[Any], mask: Any) -> Iterator[NDArray[Any]]:
    if isinstance(space, spaces.Dict) and isinstance(mask, Mapping):
        for name, part in space.spaces.items():
            yield from _parts_of_mask(part, mask[name])
    elif isinstance(mask, tuple | list) and len(choices_of(space)) > 1:
        if isinstance(space, spaces.Tuple) and len(mask) == len(space.spaces):
            for part, of in zip(space.spaces, mask, strict=True):
                yield from _parts_of_mask(part, of)
        else:
            yield from map(np.ravel, mask)
    else:
        yield np.ravel(mask)


def checked_masks(masks: NDArray[Any], sizes: Sequence[int], name: str) -> NDArray[np.bool_]:
    """Return masks [M, A] of zeros and ones as bool [M, A].

    sizes: the number of options of each choice, A in all. name: the mask's name in the
    ObservationError for a wrong mask.
    """
    allowed: NDArray[np.bool_] = masks == 1
    wrong = masks[~allowed & (masks != 0)]
    if len(wrong):
        raise ObservationError(f"{name} holds {wrong[0]}, not 0 or 1")
    for number, part in enumerate(np.split(allowed, np.cumsum(sizes)[:-1], axis=1)):
        if not part.any(axis=1).all():
            of = f" of choice {number}" if len(sizes) > 1 else ""
            raise ObservationError(f"{name} forbids every action{of}")
    return allowed
