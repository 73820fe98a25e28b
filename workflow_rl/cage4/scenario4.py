"""The names of CAGE Challenge 4: zones, hosts and the blue agents' actions.

A network has some of these hosts in each episode. The order of hosts and actions is that of
CybORG's `BlueFixedActionWrapper`, and never changes.
"""

from __future__ import annotations

from typing import NamedTuple

from workflow_rl.cage4.interface import N_ACTIONS

ZONES = (
    "restricted_zone_a_subnet",
    "operational_zone_a_subnet",
    "restricted_zone_b_subnet",
    "operational_zone_b_subnet",
    "contractor_network_subnet",
    "public_access_zone_subnet",
    "admin_network_subnet",
    "office_network_subnet",
    "internet_subnet",
)
"""In the order in which CybORG draws them."""
SORTED_ZONES = tuple(sorted(ZONES))
"""In the order of observations and actions."""
AGENT_ZONES = (
    ZONES[0:1],
    ZONES[1:2],
    ZONES[2:3],
    ZONES[3:4],
    ("admin_network_subnet", "office_network_subnet", "public_access_zone_subnet"),
)
"""Each blue agent's own zones, sorted."""
N_SERVERS, N_USERS = 6, 10
"""The most of a zone."""
HOSTS_OF_A_ZONE = N_SERVERS + N_USERS
MISSION_PHASES = ("Preplanning", "MissionA", "MissionB")


def zone_hosts(zone: str) -> list[str]:
    """Return the names of the 16 hosts that a zone may have, its router left out, sorted."""
    servers = [f"{zone}_server_host_{i}" for i in range(N_SERVERS)]
    return servers + [f"{zone}_user_host_{i}" for i in range(N_USERS)]


AGENT_HOSTS = tuple([host for zone in zones for host in zone_hosts(zone)] for zones in AGENT_ZONES)
"""Each blue agent's hosts, 16 or 48."""


class BlueAction(NamedTuple):
    """An action of a blue agent.

    kind: CybORG's class. host: "" for kinds without one. to_zone, from_zone: of AllowTrafficZone
    and BlockTrafficZone.
    """

    kind: str
    host: str = ""
    to_zone: str = ""
    from_zone: str = ""

    def __str__(self) -> str:
        if self.to_zone:
            return f"{self.kind} {self.to_zone} <- {self.from_zone}"
        return f"{self.kind} {self.host}".rstrip()


def _actions(agent: int) -> tuple[BlueAction, ...]:
    hosts, zones = AGENT_HOSTS[agent], AGENT_ZONES[agent]
    traffic = [(to, source) for to in zones for source in SORTED_ZONES if source != to]
    return (
        *(BlueAction("Analyse", host) for host in hosts),
        BlueAction("Monitor"),
        *(BlueAction("Remove", host) for host in hosts),
        *(BlueAction("Restore", host) for host in hosts),
        BlueAction("Sleep"),
        *(BlueAction("AllowTrafficZone", "", *pair) for pair in traffic),
        *(BlueAction("BlockTrafficZone", "", *pair) for pair in traffic),
        *(BlueAction("DeployDecoy", host) for host in hosts),
    )


ACTIONS = tuple(_actions(agent) for agent in range(len(AGENT_ZONES)))
"""Each blue agent's actions, by index."""
assert tuple(map(len, ACTIONS)) == N_ACTIONS
