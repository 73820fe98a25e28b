"""CAGE-2's own options of the trainers and of whatever else trains or plays on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from agents.settings import OneOf
from workflow_rl.cage2.env.arguments import MOST
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.settings import Cage2Arguments
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.environments.environment import InvalidEnvironmentError

STEPS = click.IntRange(1, MOST)


def training_options(option: Callable[..., Any]) -> list[Any]:
    """Decorators, made by an `option` like click's. The fields of Cage2Arguments say the rest."""
    types: dict[str, Any] = {"max_steps": STEPS, "opening": click.Choice(ACTION_NAMES)}
    made = []
    for name, field in Cage2Arguments.model_fields.items():
        choices = next((one.names for one in field.metadata if isinstance(one, OneOf)), ())
        several = {"multiple": True, "metavar": "ACTION"} if name == "opening" else {}
        made.append(
            option(
                "--" + name.replace("_", "-"),
                type=types.get(name) or click.Choice(list(choices)),
                default=field.default,
                help=field.description,
                **several,
            )
        )
    stock = option("--stock-simulator", is_flag=True, help="Stands for --simulator cyborg-stock.")
    return [*made, stock]


def chosen_simulator(options: Mapping[str, Any]) -> str:
    """What --simulator and --stock-simulator come to. Raises click.UsageError."""
    if not options["stock_simulator"]:
        return str(options["simulator"])
    if options["simulator"] != "cyborg":
        raise click.UsageError(
            f"--stock-simulator goes with --simulator cyborg, not {options['simulator']}: "
            "only csle-cyborg is sped up"
        )
    return "cyborg-stock"


def require_simulator(simulator: str) -> None:
    """Raises click.UsageError if the simulator is one that is not installed, or not as needed."""
    try:
        Cage2(simulator=simulator).check()
    except InvalidEnvironmentError as error:
        raise click.UsageError(str(error)) from None


def evaluation_arguments(args: Mapping[str, Any]) -> list[str]:
    """What `evaluate` is told for a run of these arguments. Raises click.UsageError if it could not
    score the agent."""
    if args["observation"] == "true-state":
        raise click.UsageError(
            "--observation true-state is not for agents that are scored: no evaluation shows it"
        )
    if args["simulator"] == "cyborg-stock":
        return ["--stock-simulator"]
    if args["simulator"] == "cyborg-upstream":
        return ["--simulator", args["simulator"]]
    return []
