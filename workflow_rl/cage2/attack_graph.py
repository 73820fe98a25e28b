"""Compute which hosts Red can reach in a scenario if Blue does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from workflow_rl.cage2.scenario.actions import EXPLOITS
from workflow_rl.cage2.scenario.scenario import Scenario

ENTERPRISE = "Enterprise"
"""CybORG opens closed subnets when Red has a session on a host whose name contains this text."""


class Reach(NamedTuple):
    """How Red reaches a host.

    found_from: where Red finds the host's address: the hosts that Red can hold and that lead to
    this host, or else the host's subnet. Empty if Red begins on the host or never finds the host.
    exploits: the exploits that give a session. is_held: whether Red can get a privileged session.
    """

    found_from: tuple[str, ...]
    exploits: tuple[str, ...]
    is_held: bool


def attack_graph(scenario: Scenario) -> Mapping[str, Reach]:
    """Return, for each host, how Red reaches the host if Blue does nothing."""
    description = scenario.description()
    exploits = _exploits(scenario)
    subnet_of = scenario.subnet_of
    home = subnet_of[scenario.red_host]
    # For each host that Red finds: the other host or the subnet where Red finds its address first.
    first_source: dict[str, str | None] = {scenario.red_host: None}
    held = [scenario.red_host]
    subnets = [home]

    def is_open(subnet: str) -> bool:
        access = description["Subnets"][subnet]["NACLs"]
        rule = access.get(home, access.get("all"))
        return rule is not None and (
            rule["in"] == "all" or any(ENTERPRISE in host for host in held)
        )

    def explore(host: str) -> None:
        for target, facts in description["Hosts"][host].get("info", {}).items():
            if "Interfaces" in facts:
                first_source.setdefault(target, host)
            if facts.get("Interfaces") == "All" and subnet_of[target] not in subnets:
                subnets.append(subnet_of[target])

    explore(scenario.red_host)
    # A host that Red takes can open subnets, so repeat until Red finds nothing new.
    n_known = 0
    while n_known < len(first_source) + len(held) + len(subnets):
        n_known = len(first_source) + len(held) + len(subnets)
        for subnet in filter(is_open, subnets):
            for host in scenario.subnets[subnet]:
                first_source.setdefault(host, subnet)
        for host in list(first_source):
            if host not in held and exploits[host] and is_open(subnet_of[host]):
                held.append(host)
                explore(host)

    def sources(host: str) -> tuple[str, ...]:
        first = first_source.get(host)
        if first is None:
            return ()
        leading = []
        for source in scenario.hosts:
            facts = description["Hosts"][source].get("info", {}).get(host, {})
            if source in held and source != host and "Interfaces" in facts:
                leading.append(source)
        return tuple(leading) or (first,)

    return {host: Reach(sources(host), exploits[host], host in held) for host in scenario.hosts}


def _exploits(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """Return, for each host, the exploits that give Red a session from any other host."""
    from workflow_rl.cage2.compiled.description import tables_of
    from workflow_rl.cage2.compiled.tables import SSH_PORT, VULNERABLE, VULNERABLE_AS_ROOT

    tables = tables_of(scenario).of
    works = np.isin(tables["vulnerability"], (VULNERABLE, VULNERABLE_AS_ROOT))
    # The exploit of SSH also needs a password that can be guessed.
    works[:, SSH_PORT] &= tables["bruteforceable"] > 0
    exploits = np.array([*EXPLOITS])
    return {
        host: tuple(exploits[works_here].tolist())
        for host, works_here in zip(scenario.hosts, works, strict=True)
    }
