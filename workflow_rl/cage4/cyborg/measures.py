"""The costs of a step, counted from CybORG's state and from the actions that it executed: see
`scenario.costs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np

from workflow_rl.cage4.scenario import costs as columns
from workflow_rl.cage4.scenario.scenario4 import (
    AGENT_HOSTS,
    AGENTS,
    HOST_NUMBERS,
    INTERNET_HOST,
)

GREEN_WORK, GREEN_ACCESS = "GreenLocalWork", "GreenAccessService"
PRIVILEGED = ("root", "SYSTEM")
DEFENDED = {host for hosts in AGENT_HOSTS for host in hosts}


class Outcome(NamedTuple):
    """What became of an executed action. kind: its class. host: its target, or "". succeeded: False
    without an observation, too, as of a Monitor that is sped up."""

    kind: str
    host: str
    succeeded: bool

    @classmethod
    def of(cls, action: Any, observation: Any) -> Self:
        host = getattr(action, "hostname", "")
        succeeded = observation is not None and observation.action_succeeded
        return cls(type(action).__name__, host, succeeded)


class CostCounter:
    """Counts the costs of an episode's steps.

    costs: float64 `[len(EVALUATED)]`, those of the last step.
    """

    def __init__(self) -> None:
        self.costs = np.zeros(len(columns.EVALUATED))

    def begin(self, state: Any) -> None:
        """Begin an episode. state: CybORG's `State` after the reset."""
        self.costs = np.zeros_like(self.costs)
        foothold = _levels(state)
        self._hosts = [
            host
            for host in state.hosts
            if host not in foothold and host != INTERNET_HOST and "router" not in host
        ]
        self._levels: dict[str, int] = {}

    def count(self, controller: Any, outcomes: Iterable[Outcome], action_cost: int) -> None:
        """Count a step's costs.

        controller: CybORG's `SimulationController` after the step, or an object with its
            attributes. outcomes: of the actions that were executed in the step. action_cost: what
            the step's Restores cost.
        """
        costs = np.zeros_like(self.costs)
        for kind, host, succeeded in outcomes:
            if kind in columns.COSTS_OF_BLUE:
                costs[columns.COSTS_OF_BLUE[kind]] += 1
            elif kind in columns.COSTS_OF_RED:
                costs[columns.COSTS_OF_RED[kind]] += succeeded
            elif kind in (GREEN_WORK, GREEN_ACCESS):
                costs[columns.GREEN_WORK] += 1
                by_red = kind == GREEN_WORK
                costs[columns.RED_FAILURES if by_red else columns.BLUE_FAILURES] += not succeeded
            if kind in ("Remove", "Restore"):
                # Blue acts before Red, so the levels are those at the end of the step before.
                is_held = self._levels.get(host, 0) > 0
                costs[columns.COUNTER_ACTIONS if is_held else columns.HEALTHY_RECOVERIES] += 1
        busy = [controller.actions_in_progress.get(agent) for agent in AGENTS]
        in_progress = sum(type(item["action"]).__name__ == "Restore" for item in busy if item)
        costs[columns.RESTORE_STEPS] = costs[columns.RESTORES] + in_progress
        costs[columns.BLOCKED_PAIRS] = sum(map(len, controller.state.blocks.values()))
        costs[columns.GREEN_FAILURES] = costs[columns.BLUE_FAILURES] + costs[columns.RED_FAILURES]
        costs[columns.DOWNTIME] = costs[columns.RESTORE_STEPS] + costs[columns.BLUE_FAILURES]
        costs[columns.ACTION_COST] = action_cost
        found = _levels(controller.state)
        self._levels = {host: found.get(host, 0) for host in self._hosts}
        for host, level in self._levels.items():
            costs[columns.CLEAN_HOSTS + level] += 1
            costs[columns.FIRST_LEVEL + HOST_NUMBERS[host]] = level
        costs[columns.RED_PRESENT] = any(self._levels.get(host, 0) for host in DEFENDED)
        self.costs = costs


def _levels(state: Any) -> dict[str, int]:
    """Return what Red holds of hosts, by name: 1 a user's session, 2 root's."""
    levels: dict[str, int] = {}
    for agent, sessions in state.sessions.items():
        for session in sessions.values() if agent.startswith("red") else ():
            level = 2 if session.username in PRIVILEGED else 1
            levels[session.hostname] = max(level, levels.get(session.hostname, 0))
    return levels
