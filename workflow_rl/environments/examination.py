"""What `check-env` finds out about an environment, in a worker."""

import copy
import functools
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.environments.action_mask import MaskingEnv, mask_in
from workflow_rl.environments.determinism import CheckedEnv, first_difference, settled
from workflow_rl.environments.environment import Tell
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.flat_env import KnownEntries, sampled
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.simulator import Elsewhere
from workflow_rl.errors import ConfigError, ObservationError

SEEDS = tuple(episode_spec(0, number).env_seed for number in range(3))
MANY_STEPS = 1000
"""After so many random steps without an end of an episode, `check-env` warns."""
MUCH_WAITING = 0.6
"""If a process waits for this share of the time or more, more processes than cores are faster."""
_SCHEDULED = Path("/proc/self/schedstat")


_OUTER = (OrderEnforcing, PassiveEnvChecker, TimeLimit, MaskingEnv, KnownEntries)


class Line(NamedTuple):
    """A line about an environment. is_problem: whether the line is a reason against training.
    is_note: whether the line only announces the next check."""

    text: str
    is_problem: bool = False
    is_note: bool = False


def examine(environment: GymnasiumEnvironment, steps: int, seconds: float, tell: Tell) -> None:
    """Tell lines about an environment with supported spaces.

    steps, seconds: the limits of the first play of each seed.
    """
    _hear_gymnasium(environment, tell)
    if not _is_fine_when_played(environment, steps, seconds, tell):
        return
    try:
        speed, unended = _speed(environment)
        tell(Line(f"speed         {speed}"))
        if unended >= MANY_STEPS:
            tell(
                Line(
                    f"episodes      warn: none ended within {unended:,} random steps. A worker "
                    "returns an episode at its end: limit its steps (gymnasium's TimeLimit), or "
                    "train with --num-steps-per-env"
                )
            )
    except BaseException as error:
        tell(Line(f"episodes      fail: {in_one_line(error)}", is_problem=True))


class _FiniteEnv(CheckedEnv):
    """A CheckedEnv whose rewards and observations must be finite: raises ObservationError."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, *others = super().step(action)
        if not np.isfinite(reward):
            raise ObservationError(f"the reward of step {self._steps - 1} is {reward}", ())
        return obs, reward, *others  # type: ignore[return-value]

    def _flat(self, obs: Any) -> Any:
        flat = super()._flat(obs)
        if not np.isfinite(flat).all():
            wrong = flat[~np.isfinite(flat)][0]
            raise ObservationError(f"the observation of step {self._steps} holds {wrong}", ())
        return flat


class _WithinMasks(MaskingEnv):
    """Replaces each action by a possible action, because Gymnasium's checker ignores masks."""

    def step(self, action: Any) -> Any:
        space = copy.deepcopy(self.action_space)
        space.seed(0)  # The checker repeats a step, and expects an equal answer.
        return super().step(sampled(space, self._mask))

    def _with_mask(self, obs: Any, info: Any) -> Any:
        info = super()._with_mask(obs, info)
        self._mask = mask_in(obs, info)
        return info


def _hear_gymnasium(environment: GymnasiumEnvironment, tell: Tell) -> None:
    """Tell what Gymnasium's checker says. It is only a warning, because the checker refuses some
    environments that can be trained on, such as wrappers that do not record their arguments."""
    checked = env = environment.make_env()
    # Gymnasium's wrappers, and this package's, would hide the inner environment from the checker.
    while isinstance(checked, _OUTER):
        checked = checked.env
    # The checker cannot check an environment in another interpreter.
    if isinstance(there := getattr(checked, "env", checked), Elsewhere):
        tell(Line(f"env-python    ok: {there.about}"))
        env.close()
        return
    if environment.spaces().masked:
        checked = _WithinMasks(checked)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            gymnasium_check_env(checked, skip_render_check=True)
        except BaseException as error:
            tell(Line(f"gymnasium     warns: {in_one_line(error)}"))
            return
        finally:
            env.close()
    # For a team, Gymnasium's warnings are about the joint space, not about the agents' spaces.
    for warning in caught if environment.spaces().team is None else ():
        message = str(warning.message)
        # A wrapper that changes rewards must be checked with its changes.
        if "env.unwrapped" not in message:
            plain = message.replace("\x1b[33m", "").replace("\x1b[0m", "")
            tell(Line(f"gymnasium     warns: {plain.removeprefix('WARN: ').strip()}"))
    tell(Line("gymnasium     ok"))


def _is_fine_when_played(
    environment: GymnasiumEnvironment, steps: int, seconds: float, tell: Tell
) -> bool:
    note = (
        f"seeds         playing {len(SEEDS)} seeds three times each, the third time beside another "
        f"env: about {4 * seconds:g} seconds at most for each seed..."
    )
    tell(Line(note, is_note=True))

    def difference_of(seed: int, played: GymnasiumEnvironment) -> str | None:
        return first_difference(
            lambda: _FiniteEnv(played.make_env(), played.masks, played.costs), steps, seconds, seed
        )

    for seed in SEEDS:
        problem = ""
        try:
            difference, is_separated = settled(environment, functools.partial(difference_of, seed))
            if is_separated:
                tell(
                    Line(
                        "seeds         note: the environment draws from the process's random "
                        "state. Training gives each env a state of its own"
                    )
                )
            if difference is not None:
                problem = f"seeds         fail: {difference}; runs will vary from one to the next"
        except ConfigError as error:
            problem = f"space         fails: {error.message}"
        except ObservationError as error:
            problem = f"space         fails: {error}"
            if error.trajectories is not None:
                problem = f"numbers       fail: {error}; seed {seed} was given to the first reset"
        except BaseException as error:
            problem = f"episodes      fail: {in_one_line(error)}, while seed {seed} was played"
        if problem:
            tell(Line(problem, is_problem=True))
            return False
    tell(Line("seeds         ok: each determines its episode, played again and elsewhere"))
    return True


def _speed(environment: GymnasiumEnvironment) -> tuple[str, int]:
    """Play at random for half a second. Return the speed, with advice if steps wait, and the number
    of steps if no episode ended, or 0."""
    n_resets = n_steps = 0
    resetting, ended = 0.0, True
    with closing(environment.make_env()) as env:
        start, busy = time.perf_counter(), _busy_seconds()
        while (seconds := time.perf_counter() - start) < 0.5 or not n_steps:
            if ended:
                mask = mask_in(*env.reset(seed=SEEDS[n_resets % len(SEEDS)]))
                resetting += time.perf_counter() - start - seconds
                n_resets += 1
            obs, _, terminated, truncated, info = env.step(sampled(env.action_space, mask))
            ended, mask, n_steps = terminated or truncated, mask_in(obs, info), n_steps + 1
        # A process that is ready to run counts as busy, because other processes may use the cores.
        waits = 1 - (_busy_seconds() - busy) / (time.perf_counter() - start)
    speed = f"{n_steps / (seconds - resetting):,.0f} steps/s of one environment"
    speed = f"{speed}; {1000 * resetting / n_resets:,.2f} ms a reset"
    # This process's time does not include another interpreter's time.
    if waits >= MUCH_WAITING and not environment.python:
        advice = "train with --n-workers 8 --n-envs 8, or more"
        speed = f"{speed}; {min(1.0, waits):.0%} of the time this process waits: {advice}"
    return speed, 0 if n_resets > 1 or ended else n_steps


def _busy_seconds() -> float:
    """Return the seconds in which the process ran, or was ready to run."""
    try:
        ready = int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # Only Linux has this file.
        ready = 0.0
    return time.process_time() + ready
