"""The command that tells whether an environment can be trained on, and its runs repeated."""

from __future__ import annotations

import warnings
from typing import Any

import click
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from workflow_rl.commands.options import EPISODES, SECONDS, EnvArg
from workflow_rl.environments.determinism import first_difference
from workflow_rl.environments.env_batch import ObservationError
from workflow_rl.environments.environment import InvalidEnvironmentError, guests
from workflow_rl.environments.flat_env import CheckedEnv
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

SEEDS = (0, 1, 2)


@click.command("check-env")
@click.argument("env_id")
@click.option(
    "--env-arg",
    type=EnvArg(),
    multiple=True,
    help="Argument of the environment, such as size=4; may be given again.",
)
@click.option(
    "--steps",
    type=EPISODES,
    default=1000,
    show_default=True,
    metavar="N",
    help="Steps, at most, of each of the three seeds' episodes that are repeated.",
)
@click.option(
    "--seconds",
    type=SECONDS,
    default=20.0,
    show_default=True,
    metavar="X",
    help="Time, at most, for each of them.",
)
def check_env(
    env_id: str, env_arg: tuple[tuple[str, Any], ...], steps: int, seconds: float
) -> None:
    """Check an environment before training on it.

    ENV_ID is an id of Gymnasium's, module:ID, or module:function, which returns an environment.
    Checked are its spaces, what Gymnasium's own checker checks, whether its observations are of
    their space, and whether the seed given to reset determines the whole episode. Exits with 1 if
    something is wrong.

    Example: check-env CartPole-v1
    """  # fmt: skip
    environment = GymnasiumEnvironment(env_id, dict(env_arg))
    try:
        spaces = environment.spaces()
    except InvalidEnvironmentError as error:
        raise click.BadParameter(str(error), param_hint="ENV_ID") from None
    click.echo(f"spaces        ok: {spaces.obs_dim} numbers observed, {spaces.distribution}")
    problems = [*_gymnasium_problems(environment), *_played_problems(environment, steps, seconds)]
    if env_id in guests:
        click.echo("It is a guest of this package: the trainers know its own options.")
    if problems:
        raise SystemExit(1)


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
            problem = str(error).strip() or type(error).__name__
            click.echo(f"gymnasium     fails: {problem}")
            return [problem]
        finally:
            env.close()
    for warning in caught:
        click.echo(f"gymnasium     warns: {_plain(str(warning.message))}")
    click.echo("gymnasium     ok")
    return []


def _plain(message: str) -> str:
    return message.replace("\x1b[33m", "").replace("\x1b[0m", "").removeprefix("WARN: ").strip()


def _played_problems(environment: GymnasiumEnvironment, steps: int, seconds: float) -> list[str]:
    for seed in SEEDS:
        try:
            difference = first_difference(
                lambda: CheckedEnv(environment.make_env()), steps, seconds, seed
            )
        except ObservationError as error:
            click.echo(f"space         fails: {error}")
            return [str(error)]
        except Exception as error:
            difference = f"{type(error).__name__} while seed {seed} is played: {error}"
        if difference is not None:
            click.echo(f"seeds         fail: {difference}; runs will vary from one to the next")
            return [difference]
    click.echo("seeds         ok: each determines its episode, played again and elsewhere")
    return []
