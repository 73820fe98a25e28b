"""What is measured of CAGE-2's episodes beside the return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.costs import COSTS, LEVEL, N_COSTS, evaluated_costs
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.evaluation.measures import (
    Measure,
    Part,
    Times,
    read_measures,
    share,
    time_above_zero,
    time_until,
    total,
)

if TYPE_CHECKING:
    from workflow_rl.cage2.scenario.family import ScenarioFamily

_HOSTS = ("clean_hosts", "user_hosts", "root_hosts")
_RECOVERIES = ("restores", "removes")

MEASURES = (
    Measure(
        "clean",
        "of host-steps",
        "Share of hosts and ends of steps at which Red has no session on the host, the host of "
        "Red's given foothold left out.",
        share(["clean_hosts"], _HOSTS),
        more_is_better=True,
    ),
    Measure(
        "held as a user",
        "of host-steps",
        "Share of hosts and ends of steps at which Red has sessions on the host, none of them "
        "root's or SYSTEM's, the host of Red's given foothold left out.",
        share(["user_hosts"], _HOSTS),
    ),
    Measure(
        "held as root",
        "of host-steps",
        "Share of hosts and ends of steps at which Red has a session of root or SYSTEM on the "
        "host, the host of Red's given foothold left out.",
        share(["root_hosts"], _HOSTS),
    ),
    Measure(
        "time to recover",
        "steps",
        "Steps from the one in which Red gets its first session on a host to the one at whose end "
        "Red has none there, the host of Red's given foothold left out.",
        time_above_zero(LEVEL),
    ),
    Measure(
        "time to counter-action",
        "steps",
        "Steps from the first at whose end Red has a session on any host, beyond the given "
        "foothold's host, to Blue's first Restore or Remove on a host with such a session or with "
        "a session beyond the foothold.",
        time_until("red_present", "counter_actions"),
    ),
    Measure(
        "recoveries", "actions", "Blue's Restores and Removes of an episode.", total(*_RECOVERIES)
    ),
    Measure(
        "healthy recoveries",
        "actions",
        "Blue's Restores and Removes of an episode on hosts without a session of Red just before "
        "the action; the host of Red's given foothold is never healthy.",
        total("healthy_recoveries"),
    ),
    Measure(
        "precision",
        "of recoveries",
        "Share of Blue's Restores and Removes on hosts that had a session of Red, beyond the given "
        "foothold, just before the action.",
        share(["counter_actions"], _RECOVERIES),
        more_is_better=True,
    ),
    Measure("Impacts", "actions", "Red's Impacts of an episode that succeed.", total("impacts")),
    Measure("analyses", "actions", "Blue's Analyse actions of an episode.", total("analyses")),
    Measure(
        "decoys",
        "decoys",
        "Decoys that Blue sets up in an episode; an action that fails sets up none.",
        total("decoys"),
    ),
    Measure(
        "action cost",
        "points of return",
        "What the challenge charges for Blue's actions of an episode.",
        total("action_cost"),
    ),
)


def in_words() -> list[tuple[str, str, str]]:
    """Return the table of the measures in the pages, whose first row is the heading."""
    rows = [(measure.name, measure.unit, measure.meaning) for measure in MEASURES]
    return [("measure", "unit", "what it is"), *rows]


Measured = Mapping[str, "Sequence[Part] | Sequence[Times]"]
"""What each measure reads of a task's episodes, by the measure's name."""


def measured(played: Scenario | ScenarioFamily, trajectories: Sequence[Trajectory]) -> Measured:
    """Return what the measures read of episodes whose costs are those of an evaluation."""
    costs = trajectories[0].costs
    assert costs is not None
    names: Sequence[str] = (*COSTS, *(LEVEL + str(n) for n in range(costs.shape[1] - N_COSTS)))
    if isinstance(played, Scenario):
        names = evaluated_costs([played])
    return read_measures(MEASURES, names, trajectories)


def shares_by_host(
    played: Scenario | ScenarioFamily, trajectories: Sequence[Trajectory]
) -> dict[str, dict[str, float]]:
    """Return, by each host's name, the shares of all steps at whose end Red's best session there is
    a "user"'s or "root"'s. Return nothing for a family, whose hosts differ."""
    if not isinstance(played, Scenario):
        return {}
    levels = np.concatenate([of.costs[:, N_COSTS:] for of in trajectories if of.costs is not None])
    user, root = (np.round((levels == level).mean(axis=0), 6).tolist() for level in (1, 2))
    hosts = [name.removeprefix(LEVEL) for name in evaluated_costs([played])[N_COSTS:]]
    shares = zip(hosts, user, root, strict=True)
    return {host: {"user": as_user, "root": as_root} for host, as_user, as_root in shares}
