"""The measures of CAGE-2's episodes, beside the return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage.measures import OF_RECOVERIES, of_hosts, table_of
from workflow_rl.cage2.costs import COSTS, LEVEL, N_COSTS, evaluated_costs
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.evaluation.measures import (
    Measure,
    Ratio,
    Times,
    read_measures,
    time_above_zero,
    time_until,
    total,
)

if TYPE_CHECKING:
    from workflow_rl.cage2.scenario.family import ScenarioFamily

MEASURES = (
    *of_hosts("Hosts, except Red's first host,"),
    Measure(
        "time to recover",
        "steps",
        "Steps from the step in which Red gets its first session on a host to the step at whose "
        "end Red has no session there. Red's first host does not count.",
        time_above_zero(LEVEL),
    ),
    Measure(
        "time to first counter-action",
        "steps",
        "Steps from the first step at whose end Red has a session on another host than its first "
        "host to Blue's first recovery of a host on which Red has a session.",
        time_until("red_present", "counter_actions"),
    ),
    *OF_RECOVERIES,
    Measure("Impacts", "actions", "Red's Impacts that succeed.", total("impacts")),
    Measure("analyses", "actions", "Blue's actions that analyse a host.", total("analyses")),
    Measure("decoys", "decoys", "Decoys that Blue sets up.", total("decoys")),
    Measure(
        "action cost",
        "points of return",
        "What the challenge charges for Blue's actions.",
        total("action_cost"),
    ),
)


Measured = Mapping[str, "Sequence[Ratio] | Sequence[Times]"]
"""For each measure's name: what the measure reads from the episodes of one cell."""


def measured(played: Scenario | ScenarioFamily, trajectories: Sequence[Trajectory]) -> Measured:
    """Return what the measures read from episodes with the costs `evaluated_costs`."""
    costs = trajectories[0].costs
    assert costs is not None
    names: Sequence[str] = (*COSTS, *(LEVEL + str(n) for n in range(costs.shape[1] - N_COSTS)))
    if isinstance(played, Scenario):
        names = evaluated_costs([played])
    return read_measures(MEASURES, names, trajectories)


def shares_by_host(
    played: Scenario | ScenarioFamily, trajectories: Sequence[Trajectory]
) -> dict[str, dict[str, float]]:
    """Return, for each host, two shares of all steps: "user" and "root" are the rights of Red's
    best session there at a step's end. For a family, whose hosts differ, return no host."""
    if not isinstance(played, Scenario):
        return {}
    costs = [episode.costs for episode in trajectories if episode.costs is not None]
    levels = np.concatenate(costs)[:, N_COSTS:]
    user, root = (np.round((levels == level).mean(axis=0), 6).tolist() for level in (1, 2))
    hosts = [name.removeprefix(LEVEL) for name in evaluated_costs([played])[N_COSTS:]]
    shares = zip(hosts, user, root, strict=True)
    return {host: {"user": as_user, "root": as_root} for host, as_user, as_root in shares}


def in_words() -> list[tuple[str, str, str]]:
    """Return the measures as a table for pages. The first row is the heading."""
    return table_of(MEASURES)
