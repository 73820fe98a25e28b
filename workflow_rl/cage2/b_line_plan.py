"""What B_lineAgent's plan needs of a scenario, and of all networks of a family.

The plan refers to hosts by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflow_rl.cage2.scenario.scenario import Scenario

GOAL = "Op_Server0"
"""The host that B_lineAgent and RedMeanderAgent want to stop."""
_TAKE = ("DiscoverNetworkServices", "ExploitRemoteService", "PrivilegeEscalate")
PLAN = (
    ("DiscoverRemoteSystems", "user"),
    *((kind, "first") for kind in _TAKE),
    *((kind, "enterprise") for kind in _TAKE),
    ("DiscoverRemoteSystems", "subnet"),
    *((kind, "third") for kind in _TAKE),
    *((kind, "op_server") for kind in (*_TAKE, "Impact")),
)
"""B_lineAgent's fifteen actions and their targets. user: its own subnet. first: the host that it
attacks first. enterprise: the host of Enterprise that `first` leads to. subnet: the subnet of
`enterprise`. third: the third host of `subnet`. op_server: GOAL."""
AFTER_FAILURE = (0, 1, 2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 12, 13)
"""The action that follows each one that fails."""


def missing_for_b_line(scenario: Scenario) -> str | None:
    """Return why B_lineAgent cannot play, if it cannot.

    It begins on User0, takes any other host of its subnet, from there a host that is
    called Enterprise, then the third host of that one's subnet, and from there GOAL."""
    description, entry = scenario.description(), scenario.red_host
    hosts, subnets = description["Hosts"], description["Subnets"]
    if entry != "User0":
        return f"its plan begins on User0, and Red begins on {entry}"
    home = scenario.subnet_of[entry]
    first = scenario.subnets[home]
    if len(first) == 1:
        return "its plan needs a second host in the subnet of User0"
    for host in first:
        if host == entry:
            continue
        # An observation names the explored host first.
        explored = [name for name in (host, *hosts) if name in hosts[host].get("info", {})]
        in_enterprise = [name for name in (host, *explored) if "Enterprise" in name]
        target = in_enterprise[0] if in_enterprise else host
        if target == host or "Interfaces" not in hosts[host]["info"][target]:
            return f"its plan needs a host that is called Enterprise in what {host} leads to"
        if hosts[target].get("info", {}).get(target, {}).get("Interfaces") != "All":
            return f"its plan needs the interfaces of {target} in what {target} leads to"
        subnet = scenario.subnet_of[target]
        second = scenario.subnets[subnet]
        if len(second) < 3 or "Interfaces" not in hosts[second[2]].get("info", {}).get(GOAL, {}):
            return f"its plan needs a third host, which leads to {GOAL}, in the subnet of {target}"
        # It takes the first port that a scan shows, and raises an error if it shows none.
        access = subnets[subnet]["NACLs"]
        if access.get(home, access.get("all", {"in": "None"}))["in"] == "None":
            return f"its plan needs the subnet {subnet}, which is closed to {home}"
        for scanned in (target, second[2]):
            if not any(process.get("Connections") for process in hosts[scanned]["Processes"]):
                return f"its plan needs an open port on {scanned}"
    return None


def kept_hosts(start: Scenario, entry: Sequence[str]) -> set[str]:
    """Return the hosts that every network of a family has. entry: those where Red may begin."""
    data = json.loads(start.content)
    kept = {start.red_host, server_host(data["Agents"]), GOAL, *entry}
    for hosts in start.subnets.values():
        # B_lineAgent picks a host by its position: all up to one that leads to GOAL stay.
        leading = [
            n for n, host in enumerate(hosts, 1) if GOAL in data["Hosts"][host].get("info", {})
        ]
        kept |= {*hosts[: max(leading, default=0)]}
    return kept


def server_host(agents: Mapping[str, Any]) -> str:
    sessions = agents["Blue"]["starting_sessions"]
    return next(str(s["hostname"]) for s in sessions if s.get("parent") is None)
