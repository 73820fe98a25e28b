"""B_lineAgent's plan, and the hosts that the plan needs in a scenario or a family."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflow_rl.cage2.scenario.scenario import Scenario

GOAL = "Op_Server0"
"""The host whose service B_lineAgent and RedMeanderAgent want to stop."""
_TAKE = ("DiscoverNetworkServices", "ExploitRemoteService", "PrivilegeEscalate")
PLAN = (
    ("DiscoverRemoteSystems", "user"),
    *((kind, "first") for kind in _TAKE),
    *((kind, "enterprise") for kind in _TAKE),
    ("DiscoverRemoteSystems", "subnet"),
    *((kind, "third") for kind in _TAKE),
    *((kind, "op_server") for kind in (*_TAKE, "Impact")),
)
"""B_lineAgent's fifteen actions and their targets. user: the subnet where the agent begins. first:
the host that the agent attacks first. enterprise: the host of Enterprise to which `first` leads.
subnet: the subnet of `enterprise`. third: the third host of `subnet`. op_server: GOAL."""
AFTER_FAILURE = (0, 1, 2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 12, 13)
"""For each action of PLAN: the index of the action that B_lineAgent tries after a failure."""


def missing_for_b_line(scenario: Scenario) -> str | None:
    """Return why B_lineAgent cannot play the scenario, or None if B_lineAgent can play.

    The agent begins on User0 and takes any other host of the subnet of User0. The taken host leads
    to a host whose name contains Enterprise. The third host of this second subnet leads to GOAL."""
    description = scenario.description()
    hosts = description["Hosts"]
    entry = scenario.red_host
    if entry != "User0":
        return f"its plan begins on User0, and Red begins on {entry}"
    home = scenario.subnet_of[entry]
    users = scenario.subnets[home]
    if len(users) == 1:
        return "its plan needs a second host in the subnet of User0"
    for host in users:
        if host == entry:
            continue
        # An observation names the explored host before the hosts to which the host leads.
        explored = [name for name in (host, *hosts) if name in hosts[host].get("info", {})]
        in_enterprise = [name for name in (host, *explored) if "Enterprise" in name]
        target = in_enterprise[0] if in_enterprise else host
        if target == host or "Interfaces" not in hosts[host]["info"][target]:
            return f"its plan needs a host that is called Enterprise in what {host} leads to"
        if hosts[target].get("info", {}).get(target, {}).get("Interfaces") != "All":
            return f"its plan needs the interfaces of {target} in what {target} leads to"
        subnet = scenario.subnet_of[target]
        subnet_hosts = scenario.subnets[subnet]
        third = subnet_hosts[2] if len(subnet_hosts) > 2 else None
        if third is None or "Interfaces" not in hosts[third].get("info", {}).get(GOAL, {}):
            return f"its plan needs a third host, which leads to {GOAL}, in the subnet of {target}"
        access = description["Subnets"][subnet]["NACLs"]
        if access.get(home, access.get("all", {"in": "None"}))["in"] == "None":
            return f"its plan needs the subnet {subnet}, which is closed to {home}"
        # The agent exploits the first port that a scan shows, and raises an error without a port.
        for scanned in (target, third):
            if not any(process.get("Connections") for process in hosts[scanned]["Processes"]):
                return f"its plan needs an open port on {scanned}"
    return None


def kept_hosts(start: Scenario, entry: Sequence[str]) -> set[str]:
    """Return the hosts that every network of a family has. entry: hosts where Red may begin."""
    data = json.loads(start.content)
    kept = {start.red_host, server_host(data["Agents"]), GOAL, *entry}
    for hosts in start.subnets.values():
        # B_lineAgent picks a host by its position. So the hosts before a host that leads to GOAL
        # have to stay, too.
        n_kept = 0
        for position, host in enumerate(hosts, 1):
            if GOAL in data["Hosts"][host].get("info", {}):
                n_kept = position
        kept.update(hosts[:n_kept])
    return kept


def server_host(agents: Mapping[str, Any]) -> str:
    """Return the host of the session that is the parent of Blue's other sessions."""
    sessions = agents["Blue"]["starting_sessions"]
    return next(str(session["hostname"]) for session in sessions if session.get("parent") is None)
