"""The command `parity` compares episodes in the compiled simulator with episodes in CybORG."""

from collections.abc import Sequence
from typing import Any

import click

from workflow_rl.cage.guest import CageGuest
from workflow_rl.commands.options import EPISODES, PROCESSES, SEED, plain_option, quiet_option
from workflow_rl.commands.options_by_env import Look, Named, OpenCommand, place_options
from workflow_rl.environments.source import default_env, guests


def shared_options(red_agents: Sequence[str], blues: Sequence[str], all_of: str) -> list[Any]:
    """Return the options that the comparisons of all environments have.

    all_of: the blue agents that play by default, in words, for --help."""
    return [
        plain_option("--episodes", type=EPISODES, default=100,
                     help="Episodes of each pair of a red and a blue agent."),
        plain_option("--seed", type=SEED, default=0,
                     help="Seed of the first episode; each further episode has the next seed."),
        plain_option("--red-agent", "red_agents", multiple=True, type=click.Choice(red_agents),
                     show_default="all", help="Only this red agent. May be given again."),
        plain_option("--blue", "blues", multiple=True, type=click.Choice(blues),
                     show_default=all_of, help="Only this blue agent. May be given again."),
        plain_option("--n-workers", type=PROCESSES, show_default="one a core", help="Processes."),
        quiet_option(),
    ]  # fmt: skip


def _comparison_of(env_id: str) -> Any:
    guest = guests.get(env_id)
    return guest.parity() if isinstance(guest, CageGuest) else None


def _named(look: Look) -> Named:
    env_id = look.values.get("env", default_env())
    comparison = _comparison_of(env_id)
    if comparison is None:
        return Named(env_id, [])
    return Named(env_id, [*comparison.params, *place_options(guests[env_id])])


@click.command(
    params=[
        plain_option("--env", type=click.Choice(list(guests)), default=default_env(), metavar="ID",
                     help="The challenge.")
    ],
    cls=OpenCommand,
    named=_named,
)  # fmt: skip
def parity(env: str, **options: Any) -> None:
    """Play the same episodes in CybORG and in the compiled simulator, and compare every step.

    Observations, rewards, actions and successes must be equal. On CAGE-4, masks, messages and the
    generator of random numbers must be equal, too. The command prints the first differences. The
    exit code is 1 if there is a difference.

    Example: parity --episodes 2000 --red-agent B_lineAgent --blue random

    Example: parity --env workflow_rl/CAGE4-v0 --cyborg4 cage-challenge-4 --episodes 60"""
    comparison = _comparison_of(env)
    if comparison is None:
        raise click.BadParameter(f"{env} has only one simulator", param_hint="--env")
    comparison.callback(**options)
