"""The simulators of CAGE Challenge 4 by name. A simulator is imported when it is made."""

import importlib
from typing import cast

from workflow_rl.cage.checks import checked_least
from workflow_rl.cage4.red.roster import RedTeam, WithReds
from workflow_rl.cage4.scenario import scenario4
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
    red_agent: str | RedTeam = scenario4.RED_AGENTS[0],
    max_steps: int = scenario4.MAX_STEPS,
    scenario: scenario4.Scenario = scenario4.CHALLENGE,
    measures: bool = False,
) -> Simulator:
    """Return a simulator: one of SIMULATORS, or PUBLISHED.

    Args:
        name: "compiled" is this package's own simulator. "cyborg" is the official CybORG 4 with
            speed-ups that change no bit. PUBLISHED is CybORG 4 without the speed-ups. CybORG needs
            the user's checkout: see `checkout`.
        red_agent: one of RED_CLASSES, or a red team that chooses from outside. With FROM_OUTSIDE,
            the simulator is a RedSideSimulator. A user's "module:Class" must derive from a red
            agent of CybORG. This class plays in CybORG 4 without the speed-ups.
        max_steps: length of an episode in steps.
        scenario: the changes to the challenge.
        measures: whether the costs of steps are counted.

    Raises:
        ValueError: an argument is out of range.
        CheckoutError: CybORG 4 is needed, but the checkout is missing or is another commit.
    """
    if name not in _CLASSES:
        raise ValueError(f"simulator={name!r}: choose one of {', '.join(SIMULATORS)}")
    if not isinstance(red_agent, str):
        red_side = make_simulator(name, scenario4.FROM_OUTSIDE, max_steps, scenario, measures)
        return cast(Simulator, WithReds(cast(RedSideSimulator, red_side), red_agent))
    if ":" in red_agent:
        name = PUBLISHED  # The speed-ups drop facts that only the official red agents ignore.
    elif red_agent not in scenario4.RED_CLASSES:
        names = ", ".join(scenario4.RED_AGENTS)
        raise ValueError(f"red_agent={red_agent!r}: choose one of {names}")
    classes = _RED_SIDES if red_agent == scenario4.FROM_OUTSIDE else _CLASSES
    module, class_name = classes[name]
    simulator_class = getattr(importlib.import_module(module), class_name)
    checked_steps = checked_least("max_steps", max_steps, scenario4.LEAST_STEPS)
    return cast(Simulator, simulator_class(red_agent, checked_steps, scenario, measures))
