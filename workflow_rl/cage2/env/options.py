"""CAGE-2's own options of the trainers and of whatever else trains or plays on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from workflow_rl.cage2.agent.action_sets import ACTION_SETS
from workflow_rl.cage2.agent.views import OBSERVATIONS
from workflow_rl.cage2.env.environment import MOST_STEPS, RED_AGENT_CHOICES, Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.environments.environment import InvalidEnvironmentError

STEPS = click.IntRange(1, MOST_STEPS)


def training_options(option: Callable[..., Any]) -> list[Any]:
    """Decorators, made by an `option` like click's."""
    return [
        option("--red-agent", type=click.Choice(RED_AGENT_CHOICES), default=Cage2.red_agent,
               help="Who attacks. mixed draws one of the three for every episode; attackers does "
                    "so too, but seldom the one that sleeps."),
        option("--max-steps", type=STEPS, default=Cage2.max_steps,
               help="Steps after which an episode is truncated; the challenge scores 30, 50, 100."),
        option("--simulator", type=click.Choice(["cyborg", "cyborg-upstream", "compiled"]),
               default=Cage2.simulator,
               help="cyborg is the csle-cyborg package, sped up without changing a bit; "
                    "cyborg-upstream is the official CybORG package, if installed; compiled is "
                    "this package's own, which plays the same episodes."),
        option("--stock-simulator", is_flag=True,
               help="csle-cyborg without the speed-ups."),
        option("--observation", type=click.Choice(OBSERVATIONS), default=Cage2.observation,
               help="What the policy sees: the 52 bits of a step; with belief also what Blue "
                    "concludes from all before; true-state, which no agent that is scored may "
                    "see, measures what not seeing it costs."),
        option("--actions", type=click.Choice(ACTION_SETS), default=Cage2.actions,
               help="What it chooses from: all 145 actions; those that can do any good; or these, "
                    "with one for all decoys of a host; timed, it restores nothing that does not "
                    "pay before the challenge's horizons."),
        option("--opening", type=click.Choice(ACTION_NAMES), multiple=True, metavar="ACTION",
               help="What Blue begins every episode with, before its policy chooses; may be given "
                    "again for the next step."),
    ]  # fmt: skip


def chosen_args(options: Mapping[str, Any]) -> dict[str, Any]:
    """Cage2's arguments that follow from the options given."""
    args = {
        name: options[name]
        for name in ("red_agent", "max_steps", "simulator", "observation", "actions", "opening")
        if name in options
    }
    if options.get("stock_simulator"):
        args["simulator"] = chosen_simulator({"simulator": Cage2.simulator, **options})
    return args


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


LONG_RUN = 200_000
"""Env steps, about a minute of CybORG."""


def hint(args: Mapping[str, Any], env_steps: int) -> str | None:
    """What would make a long run on CybORG faster."""
    if args["simulator"] != "cyborg" or env_steps < LONG_RUN:
        return None
    return (
        "--simulator compiled plays the same episodes: an environment steps 6 times as fast, and "
        "1,000 of them 290 times (docs/explanations/simulators.md)"
    )


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
