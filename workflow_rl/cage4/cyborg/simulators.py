"""The simulators of CAGE Challenge 4 by name. Each is imported when it is made."""

from __future__ import annotations

import importlib
from typing import cast

from workflow_rl.cage.checks import checked_least
from workflow_rl.cage4.red.roster import RedTeam, WithReds
from workflow_rl.cage4.scenario.scenario4 import (
    CHALLENGE,
    FROM_OUTSIDE,
    LEAST_STEPS,
    MAX_STEPS,
    RED_AGENTS,
    RED_CLASSES,
    Scenario,
)
from workflow_rl.cage4.scenario.simulator_protocol import (
    PUBLISHED,
    SIMULATORS,
    RedSideSimulator,
    Simulator,
)

_CLASSES = {
    "compiled": ("workflow_rl.cage4.compiled.simulator", "CompiledSimulator"),
    "cyborg": ("workflow_rl.cage4.cyborg.sped_up", "SpedUpNetwork"),
    PUBLISHED: ("workflow_rl.cage4.cyborg.stock", "StockSimulator"),
}
_RED_SIDES = {
    "compiled": ("workflow_rl.cage4.compiled.red_simulator", "CompiledRedSide"),
    "cyborg": ("workflow_rl.cage4.cyborg.red_cyborg", "SpedUpRedSide"),
    PUBLISHED: ("workflow_rl.cage4.cyborg.red_cyborg", "StockRedSide"),
}


def make_simulator(
    name: str,
    red_agent: str | RedTeam = RED_AGENTS[0],
    max_steps: int = MAX_STEPS,
    scenario: Scenario = CHALLENGE,
) -> Simulator:
    """Return one of SIMULATORS, or PUBLISHED.

    Args:
        name: "compiled" is this package's own; "cyborg" is the official CybORG 4, sped up without
            changing a bit; PUBLISHED is the official one without the speed-ups. The latter two
            need the user's checkout, see `checkout`.
        red_agent: one of RED_CLASSES; "module:Class" of a user, which derives from an agent of
            CybORG's and plays in the official CybORG 4 without the speed-ups; or a red team from
            outside CybORG. With FROM_OUTSIDE, the simulator is a RedSideSimulator.
        max_steps: length of an episode in steps.
        scenario: what differs from the challenge.

    Raises:
        ValueError: an argument is out of range.
        CheckoutError: CybORG 4 is not there, or is another commit.
    """
    if name not in _CLASSES:
        raise ValueError(f"simulator={name!r}: choose one of {', '.join(SIMULATORS)}")
    if not isinstance(red_agent, str):
        red_side = cast(RedSideSimulator, make_simulator(name, FROM_OUTSIDE, max_steps, scenario))
        return cast(Simulator, WithReds(red_side, red_agent))
    if ":" in red_agent:
        name = PUBLISHED  # The speed-ups leave out what the official red agents do not read.
    elif red_agent not in RED_CLASSES:
        raise ValueError(f"red_agent={red_agent!r}: choose one of {', '.join(RED_AGENTS)}")
    module, simulator_class = (_RED_SIDES if red_agent == FROM_OUTSIDE else _CLASSES)[name]
    simulator: Simulator = getattr(importlib.import_module(module), simulator_class)(
        red_agent, checked_least("max_steps", max_steps, LEAST_STEPS), scenario
    )
    return simulator
