"""The command that tells whether an environment can be trained on, and its runs repeated."""

import functools
from typing import Any

import click

from workflow_rl.collection import try_in_worker
from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import EPISODES, PAIR, PYTHON, SECONDS, blaming
from workflow_rl.environments.examination import examine
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.source import guests


@click.command("check-env", cls=ClearCommand)
@click.argument("env_id")
@click.option("--env-arg", type=PAIR, multiple=True,
              help="Argument of the environment, such as size=4; may be given again.")  # fmt: skip
@click.option(
    "--env-python",
    type=PYTHON,
    default="",
    metavar="PATH",
    help="Python interpreter that plays the environment.  [default: this one]",
)
@click.option("--steps", type=EPISODES, default=1000, show_default=True, metavar="N",
              help="Maximum number of steps for each of three seeds, whose episodes "
                   "are repeated.")  # fmt: skip
@click.option("--seconds", type=SECONDS, default=5.0, show_default=True, metavar="X",
              help="Maximum number of seconds for the first play of each seed.")  # fmt: skip
@click.option("--worker-timeout", type=SECONDS, default=try_in_worker.TIMEOUT, show_default=True,
              metavar="X", help="Seconds within which each call of the environment, and all that "
                                "Gymnasium's checker does, must come to an end.")  # fmt: skip
def check_env(
    env_id: str,
    env_arg: tuple[tuple[str, Any], ...],
    env_python: str,
    steps: int,
    seconds: float,
    worker_timeout: float,
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
    environment = GymnasiumEnvironment(
        made or env_id, dict(env_arg), ignore_unknown=True, python=env_python
    )
    has_problems = False
    with blaming(lambda argument: "--env-python" if argument == "env_python" else "ENV_ID"):
        try_in_worker.learn_facts(environment, worker_timeout)
        spaces = environment.spaces()
        team = spaces.team
        seen = (
            f"{spaces.obs_dim} numbers observed"
            if team is None
            else (f"{sum(team.obs_sizes)} numbers observed by {len(team.agents)} agents")
        )
        click.echo(f"spaces        ok: {seen}, {spaces.distribution}")
        if left_out := environment.facts.left_out:
            told = f"{', '.join(left_out)}, since their spaces are not supported"
            click.echo(f"spaces        warn: without {told}: train with --ignore-unknown")
        if masks_from := environment.facts.masks_from:
            click.echo(f"masks         ok: {masks_from} rules actions out")
        if spaces.costs:
            click.echo(f"costs         ok: {', '.join(spaces.costs)}: train with --budget")
        if spaces.images is not None:
            click.echo(f"images        {spaces.images}: train with --network cnn")
        examined = functools.partial(examine, environment, steps, seconds)
        for text, is_problem, is_note in try_in_worker.ask(
            examined, environment.env_id, worker_timeout
        ):
            click.echo(text, err=is_note)
            has_problems = has_problems or is_problem
    if env_id in guests:
        click.echo("It is a guest of this package: the trainers know its own options.")
    if has_problems:
        raise SystemExit(1)
