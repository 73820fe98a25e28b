"""The actions of CAGE-4's blue and red agents, each described once.

All lists of kinds follow from these tables. The order of a table is the order of numbers.
"""

from __future__ import annotations

from typing import NamedTuple


class BlueKind(NamedTuple):
    """A kind of a blue agent's actions.

    duration: how many steps the action takes. The action takes effect in the last step.
    on_host: whether the action has a host as its target.
    cost: how much the team's reward falls when an agent hands the action in.
    repairs: whether the action belongs to the action set `repair`.
    """

    duration: int = 1
    on_host: bool = False
    cost: int = 0
    repairs: bool = False


BLUE: dict[str, BlueKind] = {
    "Sleep": BlueKind(repairs=True),
    "Monitor": BlueKind(),
    "Analyse": BlueKind(2, on_host=True),
    "Remove": BlueKind(3, on_host=True, repairs=True),
    "Restore": BlueKind(5, on_host=True, cost=1, repairs=True),
    "AllowTrafficZone": BlueKind(),
    "BlockTrafficZone": BlueKind(),
    "DeployDecoy": BlueKind(2, on_host=True),
}

RED: dict[str, int] = {
    "DiscoverRemoteSystems": 1,
    "AggressiveServiceDiscovery": 1,
    "StealthServiceDiscovery": 3,
    "ExploitRemoteService": 4,
    "PrivilegeEscalate": 2,
    "DegradeServices": 2,
    "DiscoverDeception": 2,
    "Impact": 2,
    "Withdraw": 1,
    "Sleep": 1,
    # CybORG executes this action instead of an action that is not in the agent's action space.
    "InvalidAction": 1,
}
"""The duration in steps of each kind of red action, in the order of the red action space."""

OUTCOMES = {"TRUE": 1, "UNKNOWN": 2, "FALSE": 3, "IN_PROGRESS": 4}
"""The number of each outcome of an action, by CybORG's name of the outcome."""
