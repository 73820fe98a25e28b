"""What is measured of the episodes of a blue team, beside their rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.scenario.costs import EVALUATED
from workflow_rl.cage4.scenario.scenario4 import AGENT_ZONES, ON_HOSTS, OWN_ZONES, ZONES
from workflow_rl.evaluation.measures import (
    Costs,
    Measure,
    Part,
    Times,
    plain_readings,
    share,
    time_above_zero,
    time_until,
    total,
)

HOSTS = ("clean_hosts", "user_hosts", "root_hosts")
CONTRACTOR = ZONES[4]
DEFENDED = tuple(AGENT_ZONES[agent][zone] for agent, zone in OWN_ZONES)

Readings: TypeAlias = "Mapping[str, Sequence[Part] | Sequence[Times]]"
"""What was read of each episode, by the measure's name."""


def _recovery(costs: Costs) -> Part | Times:
    """Read how long Red holds a host, where Blue can take it back."""
    beginnings = tuple(f"level {zone}" for zone in DEFENDED)
    levels = {name: costs[name] for name in costs if name.startswith(beginnings)}
    return time_above_zero("level ")(levels)


BLUE_MEASURES = (
    Measure(
        "hosts clean",
        "share of host-steps",
        "Users' hosts and servers on which Red has no session at the end of a step, of all but the "
        "one on which Red begins.",
        share(HOSTS[:1], HOSTS),
        more_is_better=True,
    ),
    Measure(
        "hosts at user level",
        "share of host-steps",
        "Users' hosts and servers on which Red has sessions at the end of a step, but none of "
        "root's rights, of all but the one on which Red begins.",
        share(HOSTS[1:2], HOSTS),
    ),
    Measure(
        "hosts at root level",
        "share of host-steps",
        "Users' hosts and servers on which Red has a session of root's rights at the end of a "
        "step, of all but the one on which Red begins.",
        share(HOSTS[2:], HOSTS),
    ),
    Measure(
        "time to recover",
        "steps",
        "For how many steps a host in the seven zones that Blue defends stays Red's, from the "
        "first step at whose end Red has a session there to the next at whose end Red has none.",
        _recovery,
    ),
    Measure(
        "time to first counter-action",
        "steps",
        "From the first step at whose end Red has a session in a zone that Blue defends to the "
        "first step in which a Remove or Restore takes effect on a host where Red has one.",
        time_until("red_present", "counter_actions"),
    ),
    Measure(
        "healthy recoveries",
        "actions",
        "Removes and Restores that take effect on hosts without a session of Red.",
        total("healthy_recoveries"),
    ),
    Measure(
        "precision of recoveries",
        "share of actions",
        "Removes and Restores that take effect on hosts with a session of Red, of all that take "
        "effect.",
        share(["counter_actions"], ["restores", "removes"]),
        more_is_better=True,
    ),
    Measure(
        "failed green work",
        "share of work",
        "Greens' local work and access to servers that fails, of all that they try.",
        share(["green_failures"], ["green_work"]),
    ),
    Measure(
        "failures caused by Blue",
        "share of failures",
        "Greens' access to servers that fails because Blue blocks the traffic, of all failures of "
        "greens, of which Red causes all others by degrading or stopping services.",
        share(["blue_failures"], ["green_failures"]),
    ),
    Measure(
        "Impacts",
        "actions",
        "Impacts that stop an operational service, without those that fail.",
        total("impacts"),
    ),
    Measure(
        "downtime",
        "host-steps and failures",
        "Hosts of each step on which a Restore is in progress or takes effect, and greens' access "
        "that fails because Blue blocks the traffic.",
        total("downtime"),
    ),
    Measure(
        "action cost",
        "reward",
        "What the challenge charges for Restores that agents hand in, also while they are busy.",
        total("action_cost"),
    ),
)


class Measured(NamedTuple):
    """What was read of episodes: by measure, and by zone and measure."""

    of_all: Readings
    of_zones: Mapping[str, Readings]

    def plain(self, task: str) -> dict[str, Any]:
        """Return what evaluation.json keeps of these episodes, which are those of a task."""
        zones = {zone: plain_readings({task: read}) for zone, read in self.of_zones.items()}
        return {"measures": plain_readings({task: self.of_all}), "zones": zones}


def joined_measures(parts: Sequence[Measured]) -> Measured:
    """Return what was read of several parts' episodes, one after another."""
    of_zones = {zone: _joined([of.of_zones[zone] for of in parts]) for zone in parts[0].of_zones}
    return Measured(_joined([of.of_all for of in parts]), of_zones)


def _joined(parts: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    return {name: [read for part in parts for read in part[name]] for name in parts[0]}


def measured(costs: NDArray[np.float64], masks: Sequence[NDArray[np.bool_]]) -> Measured:
    """Return what is read of an episode.

    costs: `EVALUATED` `[T, C]`. masks: the five agents' masks in this episode.
    """
    by_name = dict(zip(EVALUATED, costs.T, strict=True))
    of_all: dict[str, Any] = {measure.name: [measure.read(by_name)] for measure in BLUE_MEASURES}
    exists = np.concatenate(masks)[ON_HOSTS["Analyse"]]
    sizes = dict(zip(DEFENDED, exists.sum(axis=1).tolist(), strict=True))
    # No mask shows the contractor's hosts.
    sizes[CONTRACTOR] = int(costs[0, : len(HOSTS)].sum()) - sum(sizes.values())
    of_zones = {zone: _shares(by_name, zone, float(size)) for zone, size in sizes.items()}
    return Measured(of_all, of_zones)


def _shares(costs: Costs, zone: str, size: float) -> Readings:
    """Return the first three measures of a zone with so many hosts that count."""
    levels = np.array([costs[name] for name in costs if name.startswith(f"level {zone}")])
    user, root = (float((levels == level).sum()) for level in (1, 2))
    of = size * levels.shape[1]
    parts = [Part(of - user - root, of), Part(user, of), Part(root, of)]
    return {measure.name: [part] for measure, part in zip(BLUE_MEASURES, parts, strict=False)}
