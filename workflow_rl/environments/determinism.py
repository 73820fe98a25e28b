"""Whether a seed determines an episode. All reproducible results of the package depend on this."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium import spaces

from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.environments.action_mask import mask_in, require_no_other_mask
from workflow_rl.environments.answers import COSTS
from workflow_rl.environments.env_batch import Env
from workflow_rl.environments.environment import ENV, Separate, Tell
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.flat_env import FlatEnv, sampled
from workflow_rl.environments.making import naming, required_env
from workflow_rl.errors import ConfigError
from workflow_rl.life import alive

if TYPE_CHECKING:
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

CHECK_STEPS = 200
CHECK_SECONDS, CHECK_SECONDS_THERE = 1.0, 5.0
"""Simulators in their own interpreter have longer steps. Many draw from its global random state."""
SEED = episode_spec(0, 0).env_seed
"""A seed of training, which has 32 bits. Some simulators do not take seeds of 32 bits."""
OTHER = 500_000
"""Added to the seed for the neighbour env."""
NEXT = 0x9E3779B9
"""Added to the seed for the next episode, modulo 2**32, so that seeds of all sizes are played."""
_PARTS = (
    "observation", "reward", "terminated", "truncated", "next episode's first observation",
    "mask of actions", "list of costs",
)  # fmt: skip
_Step: TypeAlias = tuple[Any, float, bool, bool, Any, Any, Any]


def found_by_playing(environment: GymnasiumEnvironment, tell: Tell) -> str | None:
    """Return why results will vary from run to run: see `Environment.check`. tell: is called with
    facts that are found while playing."""
    environment.spaces()
    seconds = CHECK_SECONDS_THERE if environment.python else CHECK_SECONDS

    def difference_of(played: GymnasiumEnvironment) -> str | None:
        return first_difference(
            lambda: CheckedEnv(required_env(played), played.masks, played.costs),
            CHECK_STEPS,
            seconds,
        )

    with naming(environment):
        difference, is_separated = settled(environment, difference_of)
    if is_separated:
        tell(Separate())
    return difference


def settled(
    environment: GymnasiumEnvironment,
    difference_of: Callable[[GymnasiumEnvironment], str | None],
) -> tuple[str | None, bool]:
    """Return where episodes of an environment differ, or None, and whether each env got its own
    random state, because repeated episodes are equal only then."""
    difference = difference_of(environment)
    if difference is None or environment.private_random or environment.steps_together:
        return difference, False
    if difference_of(dataclasses.replace(environment, private_random=True)) is not None:
        return difference, False
    environment.separate()
    return None, True


def first_difference(
    make_env: Callable[[], Env], n_steps: int = 1000, seconds: float = 5.0, seed: int = SEED
) -> str | None:
    """Return where episodes from `seed` on differ when they are repeated; None if they are equal.

    One sequence of random actions is played three times, through the ends of episodes: twice in one
    env A, and once in a new env B. Beside B, a neighbour env plays other seeds, if the process can
    hold two envs. If the third play differs, a play of a new env without a neighbour shows why.

    Args:
        n_steps: play at most this many steps.
        seconds: the longest time of the first play. The other plays have as many steps.
        seed: the seed of the first episode. The next episodes' seeds follow from this seed.

    Raises ConfigError for observations that a CheckedEnv cannot tell apart.
    """
    actions: list[Any] = []
    with closing(make_env()) as env:
        deadline = time.perf_counter() + seconds
        playing = _steps(env, seed, actions)
        first = [next(playing)]
        while len(first) <= n_steps and time.perf_counter() < deadline:
            first.append(next(playing))
        if isinstance(env, CheckedEnv):
            env.require_told_apart([shown for step in first for shown in (step[0], step[4])])
        if difference := _difference(first, _steps(env, seed, actions), seed):
            return f"{difference} when it is played again"
    with closing(make_env()) as env, ExitStack() as stack:
        neighbour = None
        with suppress(Exception):  # Some envs allow no second env in a process.
            neighbour = stack.enter_context(closing(make_env()))
        repeated = _steps(env, seed, actions)
        if neighbour is not None:
            pairs = zip(repeated, _steps(neighbour, (seed + OTHER) % 2**32, []), strict=False)
            repeated = (step for step, _ in pairs)
        try:
            difference = _difference(first, repeated, seed)
        except Exception as error:
            with closing(make_env()) as alone:
                for _ in itertools.islice(_steps(alone, (seed + OTHER) % 2**32, []), len(first)):
                    pass  # If the neighbour fails alone, too, its exception is raised here.
            difference = f"seed {seed} ends in {in_one_line(error)}"
    if difference is None:
        return None
    with closing(make_env()) as env:
        if elsewhere := _difference(first, _steps(env, seed, actions), seed):
            return f"{elsewhere} in another instance"
    return f"{difference} while a second env plays in the same process"


def _difference(first: Sequence[_Step], repeated: Iterable[_Step], seed: int) -> str | None:
    """Return the first part that differs, or None. Stop at the first difference."""
    for number, (step, again) in enumerate(zip(first, repeated, strict=False)):
        for name, before, now in zip(_PARTS, step, again, strict=True):
            if not _are_same(before, now):
                at = f"step {number}" if number else "reset"
                return f"the {name} after {at} of seed {seed} differs"
    return None


def _are_same(before: Any, now: Any) -> bool:
    if type(before) is not type(now):
        return False
    if isinstance(before, dict):
        return before.keys() == now.keys() and all(_are_same(before[k], now[k]) for k in before)
    if isinstance(before, tuple | list):
        return len(before) == len(now) and all(map(_are_same, before, now))
    if isinstance(before, np.ndarray) and before.dtype == now.dtype == object:
        return before.shape == now.shape and _are_same(before.tolist(), now.tolist())
    if isinstance(before, np.ndarray):
        has_nan = before.dtype.kind in "fc"  # Bytes of equal long doubles differ in their padding.
        are_equal = before.dtype == now.dtype and np.array_equal(before, now, equal_nan=has_nan)
    else:
        are_equal = bool(before == now)
    # NaN does not equal itself, but has equal bytes.
    return are_equal or pickle.dumps(before) == pickle.dumps(now)


def _steps(env: Env, seed: int, actions: list[Any]) -> Iterator[_Step]:
    """Yield the answers to the reset and to each step, endlessly. Draw the missing actions.

    Each step gets a copy of its action, because the env may change the copy.
    """
    alive()
    env.action_space.seed(seed)
    obs, info = env.reset(seed=seed)
    mask = mask_in(obs, info)
    yield copy.deepcopy(obs), 0.0, False, False, None, copy.deepcopy(mask), None
    has_costs = isinstance(env, CheckedEnv) and bool(env.cost_names)
    for number in itertools.count():
        if number == len(actions):
            actions.append(sampled(env.action_space, mask))
        alive()
        obs, reward, terminated, truncated, info = env.step(copy.deepcopy(actions[number]))
        obs, first, mask = copy.deepcopy(obs), None, mask_in(obs, info)
        costs = info[COSTS] if has_costs else None
        if terminated or truncated:
            alive()
            seed = (seed + NEXT) % 2**32
            first, info = env.reset(seed=seed)
            first, mask = copy.deepcopy(first), mask_in(first, info)
        ends = bool(terminated), bool(truncated)
        yield obs, float(reward), *ends, first, copy.deepcopy(mask), costs


_FEW_LEVELS = 16
_MOST_NUMBERS = 2_000_000


class CheckedEnv(FlatEnv):
    """The env with its own observations and actions. Checks observations as FlatEnv does."""

    def __init__(self, env: Env, masks: bool = False, costs: Sequence[str] = ()) -> None:
        super().__init__(env, masks, costs)
        self.observation_space = env.observation_space
        self._unflatten = lambda action: action
        team = getattr(env, "envs", env)
        if hasattr(team, "show_exactly"):  # Otherwise a team rounds its rows.
            team.show_exactly()

    def _shown(self, obs: Any, info: Mapping[str, Any], ended: bool) -> Any:
        with np.errstate(over="raise"):  # An error tells that float32 cannot hold a number.
            super()._shown(obs, info, ended)
        if self._masks and not self._offers_mask:
            require_no_other_mask(self.env, obs, info)
        return obs

    def require_told_apart(self, observations: Sequence[Any]) -> None:
        """Raise ConfigError if float32 cannot distinguish the observations. Skip each None."""
        exact = self._flattening(np.dtype(np.longdouble))
        shown = [obs for obs in observations if obs is not None]
        thinned = shown[:: 1 + len(shown) * spaces.flatdim(self._seen) // _MOST_NUMBERS]
        rows = np.array([exact(obs) for obs in thinned])
        rounded = rows.astype(np.float32)
        # A loss: rounding makes all observations equal. Above 2**24, float32 skips whole numbers.
        is_lost = (rows != rows[0]).any() and (rounded == rounded[0]).all()
        # Zeros are ignored, because absent agents show zeros.
        low = np.where(rows, rows, np.inf).min(axis=0)
        high = np.where(rows, rows, -np.inf).max(axis=0)
        largest = np.maximum(np.abs(low), np.abs(high)).astype(np.float32)
        with np.errstate(invalid="ignore"):  # Other checks refuse infinite numbers.
            few = (high - low < _FEW_LEVELS * np.spacing(largest)) & (is_lost | (largest > 2**24))
        for k in np.flatnonzero(few):
            if len(np.unique(rows[:, k])) > len(np.unique(rounded[:, k])):
                raise ConfigError(
                    ENV,
                    f"its observations hold numbers from {float(low[k])} to {float(high[k])}, "
                    "which float32 cannot tell apart: subtract a constant in the environment",
                )
