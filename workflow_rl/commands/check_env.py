"""The command that tells whether an environment can be trained on, and its runs repeated."""

from __future__ import annotations

import time
import warnings
from contextlib import closing
from typing import Any

import click
import numpy as np
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from agents.modules import in_one_line
from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.options import EPISODES, SECONDS, EnvArg
from workflow_rl.environments.action_mask import mask_in, sampled
from workflow_rl.environments.determinism import first_difference
from workflow_rl.environments.env_batch import ObservationError
from workflow_rl.environments.environment import InvalidEnvironmentError, guests
from workflow_rl.environments.flat_env import CheckedEnv
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

SEEDS = (0, 1, 2)
MUCH_WAITING = 0.8
"""From this share on, more processes than cores collect faster. On a busy machine every environment
waits a little."""


@click.command("check-env", cls=ClearCommand)
@click.argument("env_id")
@click.option("--env-arg", type=EnvArg(), multiple=True,
              help="Argument of the environment, such as size=4; may be given again.")  # fmt: skip
@click.option("--steps", type=EPISODES, default=1000, show_default=True, metavar="N",
              help="Maximum number of steps for each of three seeds, whose episodes "
                   "are repeated.")  # fmt: skip
@click.option("--seconds", type=SECONDS, default=5.0, show_default=True, metavar="X",
              help="Maximum number of seconds for the first play of each seed.")  # fmt: skip
def check_env(
    env_id: str, env_arg: tuple[tuple[str, Any], ...], steps: int, seconds: float
) -> None:
    """Check an environment before training on it.

    ENV_ID is an id of Gymnasium's, module:ID, module:function, which returns an environment, or
    module:Class of a simulator that inherits workflow_rl.environments.BatchedEnv, or
    BatchedTeamEnv for teams. The command checks the spaces, what Gymnasium's own checker
    checks, whether observations are of their space, whether all numbers are finite, and whether
    the seed given to reset determines the whole episode. It exits with 1 if something is wrong.

    Example: check-env CartPole-v1
    """  # fmt: skip
    made = guests[env_id].single if env_id in guests else ""
    environment = GymnasiumEnvironment(made or env_id, dict(env_arg))
    try:
        spaces = environment.spaces()
    except InvalidEnvironmentError as error:
        raise click.BadParameter(str(error), param_hint="ENV_ID") from None
    team = spaces.team
    seen = (
        f"{spaces.obs_dim} numbers observed"
        if team is None
        else (f"{sum(team.obs_sizes)} numbers observed by {len(team.agents)} agents")
    )
    click.echo(f"spaces        ok: {seen}, {spaces.distribution}")
    problems = [*_gymnasium_problems(environment), *_played_problems(environment, steps, seconds)]
    if not problems:
        try:
            click.echo(f"speed         {_speed(environment)}")
        except Exception as error:
            problems = [in_one_line(error)]
            click.echo(f"episodes      fail: {problems[0]}")
    if env_id in guests:
        click.echo("It is a guest of this package: the trainers know its own options.")
    if problems:
        raise SystemExit(1)


class _NotFiniteError(Exception):
    """An environment gave a number that nothing can be learned from."""


class _FiniteEnv(CheckedEnv):
    """A CheckedEnv whose rewards and observations must be finite: raises _NotFiniteError."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step, and look at the reward."""
        obs, reward, *others = super().step(action)
        if not np.isfinite(reward):
            raise _NotFiniteError(f"the reward of step {self._steps} is {reward}")
        return obs, reward, *others  # type: ignore[return-value]

    def _flat(self, obs: Any) -> Any:
        shown = super()._flat(obs)
        flat = self._flatten(obs)
        if not np.isfinite(flat).all():
            wrong = flat[~np.isfinite(flat)][0]
            raise _NotFiniteError(f"the observation of step {self._steps} holds {wrong}")
        return shown


def _gymnasium_problems(environment: GymnasiumEnvironment) -> list[str]:
    env = environment.make_env()
    checked = env
    # Gymnasium's own wrappers would hide from its checker what is within.
    while isinstance(checked, OrderEnforcing | PassiveEnvChecker | TimeLimit):
        checked = checked.env
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            gymnasium_check_env(checked, skip_render_check=True)
        except Exception as error:
            problem = in_one_line(error)
            if environment.spaces().masked and isinstance(error, AssertionError):
                click.echo(
                    f"gymnasium     warns: {problem}: Gymnasium's checker also plays actions that "
                    "the masks rule out"
                )
                return []
            click.echo(f"gymnasium     fails: {problem}")
            return [problem]
        finally:
            env.close()
    # What Gymnasium says of a team is about the space that joins its agents, not about theirs.
    for warning in caught if environment.spaces().team is None else ():
        # A wrapper that changes rewards has to be checked as it is.
        if "env.unwrapped" not in str(warning.message):
            click.echo(f"gymnasium     warns: {_plain(str(warning.message))}")
    click.echo("gymnasium     ok")
    return []


def _plain(message: str) -> str:
    return message.replace("\x1b[33m", "").replace("\x1b[0m", "").removeprefix("WARN: ").strip()


def _played_problems(environment: GymnasiumEnvironment, steps: int, seconds: float) -> list[str]:
    click.echo(
        f"seeds         playing {len(SEEDS)} seeds three times each, the third time beside another "
        f"env: about {4 * seconds:g} seconds at most for each seed...",
        err=True,
    )
    for seed in SEEDS:
        try:
            difference = first_difference(
                lambda: _FiniteEnv(environment.make_env(), environment.masks), steps, seconds, seed
            )
        except _NotFiniteError as error:
            click.echo(f"numbers       fail: {error}; seed {seed} was given to the first reset")
            return [str(error)]
        except ObservationError as error:
            click.echo(f"space         fails: {error}")
            return [str(error)]
        except Exception as error:
            problem = f"{in_one_line(error)}, while seed {seed} was played"
            click.echo(f"episodes      fail: {problem}")
            return [problem]
        if difference is not None:
            click.echo(f"seeds         fail: {difference}; runs will vary from one to the next")
            return [difference]
    click.echo("seeds         ok: each determines its episode, played again and elsewhere")
    return []


def _speed(environment: GymnasiumEnvironment) -> str:
    """Play at random for half a second. Return the speed, and what helps where steps wait."""
    n_steps, wall, cpu = 0, time.perf_counter(), time.process_time()
    with closing(environment.make_env()) as env:
        ended = True
        while (seconds := time.perf_counter() - wall) < 0.5:
            if ended:
                mask = mask_in(*env.reset(seed=SEEDS[n_steps % len(SEEDS)]))
            obs, _, terminated, truncated, info = env.step(sampled(env.action_space, mask))
            ended, mask, n_steps = terminated or truncated, mask_in(obs, info), n_steps + 1
    waits = 1 - (time.process_time() - cpu) / seconds
    speed = f"{n_steps / seconds:,.0f} steps/s, resets included, of one environment"
    if waits < MUCH_WAITING:
        return speed
    advice = "train with --n-workers 8 --n-envs 8, or more"
    return f"{speed}; {waits:.0%} of the time this process waits: {advice}"
