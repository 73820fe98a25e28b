"""The costs of a step, from CybORG's state and the executed actions: see `scenario.costs`."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np

from workflow_rl.cage4.scenario.costs import AT, COUNTED_BLUE, COUNTED_RED, EVALUATED, FIRST_LEVEL
from workflow_rl.cage4.scenario.scenario4 import AGENT_HOSTS, AGENTS, HOST_NUMBERS, INTERNET_HOST

GREEN_WORK, GREEN_ACCESS = "GreenLocalWork", "GreenAccessService"
PRIVILEGED = ("root", "SYSTEM")
DEFENDED = {host for hosts in AGENT_HOSTS for host in hosts}


class Executed(NamedTuple):
    """The outcome of an action. kind: the action's class. host: its target, or "". succeeded: also
    False for an action without an observation, such as a sped-up Monitor."""

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

    costs: float64 `[len(EVALUATED)]`, the costs of the last step; `[0]` without measures.
    """

    def __init__(self, measures: bool) -> None:
        self.costs = np.zeros(len(EVALUATED) if measures else 0)

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

    def count(self, controller: Any, outcomes: Iterable[Executed], action_cost: int) -> None:
        """Count a step's costs.

        controller: CybORG's `SimulationController` after the step, or an object with its
            attributes. outcomes: the outcomes of the actions that were executed in the step.
            action_cost: what the step's Restores cost.
        """
        if not self.costs.size:
            return
        costs = np.zeros_like(self.costs)
        for kind, host, succeeded in outcomes:
            if kind in COUNTED_BLUE:
                costs[COUNTED_BLUE[kind]] += 1
            elif kind in COUNTED_RED:
                costs[COUNTED_RED[kind]] += succeeded
            elif kind in (GREEN_WORK, GREEN_ACCESS):
                costs[AT.green_work] += 1
                column = AT.red_failures if kind == GREEN_WORK else AT.blue_failures
                costs[column] += not succeeded
            if kind in ("Remove", "Restore"):
                # Blue acts before Red, so the levels from the end of the last step count.
                is_held = self._levels.get(host, 0) > 0
                column = AT.counter_actions if is_held else AT.healthy_recoveries
                costs[column] += 1
        busy = [controller.actions_in_progress.get(agent) for agent in AGENTS]
        in_progress = sum(type(item["action"]).__name__ == "Restore" for item in busy if item)
        costs[AT.restore_steps] = costs[AT.restores] + in_progress
        costs[AT.blocked_pairs] = sum(map(len, controller.state.blocks.values()))
        costs[AT.green_failures] = costs[AT.blue_failures] + costs[AT.red_failures]
        costs[AT.downtime] = costs[AT.restore_steps] + costs[AT.blue_failures]
        costs[AT.action_cost] = action_cost
        found = _levels(controller.state)
        self._levels = {host: found.get(host, 0) for host in self._hosts}
        for host, level in self._levels.items():
            costs[AT.clean_hosts + level] += 1
            costs[FIRST_LEVEL + HOST_NUMBERS[host]] = level
        costs[AT.red_present] = any(self._levels.get(host, 0) for host in DEFENDED)
        self.costs = costs


def _levels(state: Any) -> dict[str, int]:
    """Return the level of each host with red sessions: 1 for a user's session, 2 for root's."""
    levels: dict[str, int] = {}
    for agent, sessions in state.sessions.items():
        if not agent.startswith("red"):
            continue
        for session in sessions.values():
            level = 2 if session.username in PRIVILEGED else 1
            levels[session.hostname] = max(level, levels.get(session.hostname, 0))
    return levels
