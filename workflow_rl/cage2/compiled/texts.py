"""Red's actions, subnets and addresses, as CybORG prints them."""

from __future__ import annotations

import functools
from typing import Any

from workflow_rl.cage2.compiled.tables import (
    DISCOVER_SYSTEMS,
    ESCALATE,
    IMPACT,
    NETWORK,
    RED_SLEEP,
    SUBNET,
)
from workflow_rl.cage2.scenario2 import HOSTS, RED_ACTIONS

HOST_KINDS = (ESCALATE, IMPACT)
"""Red's actions that name a host. The others name an address, or nothing."""


def red_action_of(state: Any) -> str:
    """Return Red's last action as CybORG prints it."""
    kind, target = int(state["red_kind"]), int(state["red_target"])
    if kind == RED_SLEEP or kind in HOST_KINDS:
        return _red_action(kind, target)
    subnet = target if kind == DISCOVER_SYSTEMS else int(SUBNET[target])
    host_part = 0 if kind == DISCOVER_SYSTEMS else int(state["address_index"][target])
    return _red_action(kind, 16 * int(state["subnet_index"][subnet]) + host_part)


@functools.lru_cache(maxsize=1 << 16)
def _red_action(kind: int, at: int) -> str:
    """at: an index into `HOSTS`, or an address's distance from the first one of the network."""
    name = RED_ACTIONS[kind]
    if kind == RED_SLEEP:
        return name
    if kind in HOST_KINDS:
        return f"{name} {HOSTS[at]}"
    address = NETWORK.network_address + at
    return f"{name} {address}/28" if kind == DISCOVER_SYSTEMS else f"{name} {address}"


def subnet_of(state: Any, subnet: int) -> str:
    """Return a subnet's addresses as CybORG prints them."""
    return f"{NETWORK.network_address + 16 * int(state['subnet_index'][subnet])}/28"


def address_of(state: Any, host: int) -> str:
    """Return a host's address as CybORG prints it."""
    first = NETWORK.network_address + 16 * int(state["subnet_index"][SUBNET[host]])
    return str(first + int(state["address_index"][host]))
