"""Which of the challenge's red agents can play in a scenario. Two of them name hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workflow_rl.cage2.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS

GOAL = "Op_Server0"
"""The host that both agents want to stop."""


def refusals(scenario: Scenario) -> Mapping[str, str | None]:
    """Return the challenge's red agents, each with what keeps it from playing, if anything."""
    if scenario.is_scenario2:
        return dict.fromkeys(RED_AGENTS)
    problems = (missing_for_b_line(scenario.description()), _of_meander(scenario), None)
    return dict(zip(RED_AGENTS, problems, strict=True))


def missing_for_b_line(description: Mapping[str, Any]) -> str | None:
    """Return why B_lineAgent cannot play, if it cannot.

    It begins on User0, takes any other host of its subnet, from there a host that is
    called Enterprise, then the third host of that one's subnet, and from there GOAL."""
    hosts, subnets = description["Hosts"], description["Subnets"]
    entry = description["Agents"]["Red"]["starting_sessions"][0]["hostname"]
    if entry != "User0":
        return f"its plan begins on User0, and Red begins on {entry}"
    home, first = _subnet_of(entry, subnets)
    if len(first) == 1:
        return "its plan needs a second host in the subnet of User0"
    for host in first:
        if host == entry:
            continue
        # An observation names the explored host first.
        found = [name for name in (host, *hosts) if name in hosts[host].get("info", {})]
        target = next((name for name in (host, *found) if "Enterprise" in name), host)
        if target == host or "Interfaces" not in hosts[host]["info"][target]:
            return f"its plan needs a host that is called Enterprise in what {host} leads to"
        if hosts[target].get("info", {}).get(target, {}).get("Interfaces") != "All":
            return f"its plan needs the interfaces of {target} in what {target} leads to"
        subnet, second = _subnet_of(target, subnets)
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


def _subnet_of(host: str, subnets: Mapping[str, Any]) -> tuple[str, list[str]]:
    return next((name, row["Hosts"]) for name, row in subnets.items() if host in row["Hosts"])


def _of_meander(scenario: Scenario) -> str | None:
    """RedMeanderAgent raises an error where it holds all that it knows, and not GOAL. When it loses
    hosts, it looks for the addresses of those with Op or Ent in their names, if it holds any."""
    from workflow_rl.cage2.attack_graph import attack_graph

    if any(part in scenario.red_host for part in ("Op", "Ent")):
        return f"it loses its way where Red begins on a host like {scenario.red_host}"
    graph = attack_graph(scenario)
    known = [reach for reach in graph.values() if reach.found_from]
    goal_is_held = GOAL in graph and graph[GOAL].is_held
    if not goal_is_held and all(reach.is_held for reach in known):
        return f"it ends where it holds all hosts that Red can find, and no {GOAL} is among them"
    return None
