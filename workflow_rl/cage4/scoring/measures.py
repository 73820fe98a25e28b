"""What is measured in a blue team's episodes, beside the rewards."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.measures import HOSTS, OF_RECOVERIES, of_hosts, table_of
from workflow_rl.cage4.scenario.costs import COSTS, EVALUATED
from workflow_rl.cage4.scenario.scenario4 import AGENT_ZONES, ON_HOSTS, OWN_ZONES, ZONES
from workflow_rl.evaluation.measures import (
    BY_STEP,
    MEASURES,
    Costs,
    Measure,
    Ratio,
    Times,
    course_of,
    plain_readings,
    share,
    time_above_zero,
    time_until,
    total,
)

CONTRACTOR = ZONES[4]
DEFENDED = tuple(AGENT_ZONES[agent][zone] for agent, zone in OWN_ZONES)

Readings: TypeAlias = "Mapping[str, Sequence[Ratio] | Sequence[Times]]"
"""The readings of episodes, by the measure's name."""


BLUE_MEASURES = (
    *of_hosts("Users' hosts and servers, without the one on which Red begins,"),
    Measure(
        "time to recover",
        "steps",
        "How long Red holds a host in the seven zones that Blue defends: from the first step that "
        "ends with a red session on the host to the next step that ends without one.",
        time_above_zero(*(f"level {zone}" for zone in DEFENDED)),
    ),
    Measure(
        "time to first counter-action",
        "steps",
        "From the first step that ends with a red session in a zone that Blue defends to the "
        "first step in which a Remove or Restore takes effect on a host with a red session.",
        time_until("red_present", "counter_actions"),
    ),
    *OF_RECOVERIES,
    Measure(
        "failed green work",
        "share of work",
        "The failed part of the local work and the accesses to servers that greens try.",
        share(["green_failures"], ["green_work"]),
    ),
    Measure(
        "failures caused by Blue",
        "share of failures",
        "The part of greens' failures that are accesses to servers that Blue blocks. Red causes "
        "all other failures by degrading or stopping services.",
        share(["blue_failures"], ["green_failures"]),
    ),
    Measure(
        "Impacts",
        "actions",
        "Impacts that stop an operational service. Failed Impacts do not count.",
        total("impacts"),
    ),
    Measure(
        "downtime",
        "host-steps and failures",
        "The sum over all steps of the hosts on which a Restore is in progress or takes effect, "
        "and of greens' accesses that fail because Blue blocks the traffic.",
        total("downtime"),
    ),
)


class Measured(NamedTuple):
    """The readings of episodes: by measure, and by zone and measure. clean_hosts: for each episode,
    the number of clean hosts after each step, `[T]`. sums: the steps' sums of `COSTS`, `[C]`."""

    of_all: Readings
    of_zones: Mapping[str, Readings]
    clean_hosts: Sequence[NDArray[np.float64]]
    sums: Sequence[NDArray[np.float64]]

    def plain(self, task: str) -> dict[str, Any]:
        """Return what evaluation.json has of these episodes. task: the task of all episodes."""
        zones = {zone: plain_readings({task: read}) for zone, read in self.of_zones.items()}
        course = course_of(self.clean_hosts)
        return {
            MEASURES: plain_readings({task: self.of_all}),
            BY_STEP: {task: {HOSTS[0]: course}},
            "zones": zones,
        }


def joined_measures(parts: Sequence[Measured]) -> Measured:
    """Return the readings of all parts' episodes, in order."""
    zones = parts[0].of_zones
    of_zones = {zone: _joined([part.of_zones[zone] for part in parts]) for zone in zones}
    clean_hosts = [of_episode for part in parts for of_episode in part.clean_hosts]
    sums = [of_episode for part in parts for of_episode in part.sums]
    return Measured(_joined([part.of_all for part in parts]), of_zones, clean_hosts, sums)


def _joined(parts: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    return {name: [read for part in parts for read in part[name]] for name in parts[0]}


def read_episode(costs: NDArray[np.float64], masks: Sequence[NDArray[np.bool_]]) -> Measured:
    """Return the readings of an episode.

    costs: `EVALUATED` `[T, C]`. masks: the five agents' masks in this episode.
    """
    by_name = dict(zip(EVALUATED, costs.T, strict=True))
    of_all: dict[str, Any] = {measure.name: [measure.read(by_name)] for measure in BLUE_MEASURES}
    exists = np.concatenate(masks)[ON_HOSTS["Analyse"]]
    sizes = dict(zip(DEFENDED, exists.sum(axis=1).tolist(), strict=True))
    # No mask shows the contractor's hosts, because no blue agent defends them.
    sizes[CONTRACTOR] = int(costs[0, : len(HOSTS)].sum()) - sum(sizes.values())
    of_zones = {zone: _shares(by_name, zone, float(size)) for zone, size in sizes.items()}
    sums = costs[:, : len(COSTS)].sum(axis=0)
    return Measured(of_all, of_zones, [by_name[HOSTS[0]]], [sums])


def _shares(costs: Costs, zone: str, size: float) -> Readings:
    """Return the readings of the first three measures in a zone. size: the hosts that count."""
    levels = np.array([costs[name] for name in costs if name.startswith(f"level {zone}")])
    user, root = (float((levels == level).sum()) for level in (1, 2))
    n_all = size * levels.shape[1]
    parts = [Ratio(n_all - user - root, n_all), Ratio(user, n_all), Ratio(root, n_all)]
    return {measure.name: [part] for measure, part in zip(BLUE_MEASURES, parts, strict=False)}


def team_measures_in_words() -> list[tuple[str, str, str]]:
    """Return the measures as a table for pages. The first row is the heading."""
    return table_of(BLUE_MEASURES)
