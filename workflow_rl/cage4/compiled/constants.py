"""Tables of what all networks of the challenge have in common.

The tables follow `EnterpriseScenarioGenerator`, `BlueRewardMachine` and the wrappers. A host's
number is its index in `scenario4.HOST_NAMES`. A zone's number is its index in `scenario4.ZONES`."""

import itertools
from typing import Any

import numpy as np

from workflow_rl.cage4.agent.raw_record import DECOYS, STRANGER
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.scenario4 import (
    AGENT_ZONES,
    N_HOSTS,
    N_USERS,
    PLACES,
    SORTED_ZONES,
    ZONES,
)

RZA, OZA, RZB, OZB, CONTRACTOR, PUBLIC, ADMIN, OFFICE, INTERNET = range(9)
N_ZONES = len(ZONES)
N_LAN = INTERNET  # The zones before the internet.
FIRST_USER = 1
FIRST_SERVER = FIRST_USER + N_USERS
INTERNET_HOST = N_HOSTS - 1
N_BLUE, N_RED = len(AGENT_ZONES), 6
MAX_GREENS = N_LAN * N_USERS
MAX_BLUE_SESSIONS = 3 * PLACES
NOBODY = STRANGER

ZONE = np.arange(N_HOSTS, dtype=np.int64) // PLACES
PLACE = np.arange(N_HOSTS, dtype=np.int64) % PLACES
RED_OF_ZONE = np.array([1, 2, 3, 4, 0, 5, 5, 5, NOBODY], np.int64)
BLUE_OF_ZONE = np.full(N_ZONES, NOBODY, np.int64)
for _agent, _zones in enumerate(AGENT_ZONES):
    BLUE_OF_ZONE[[ZONES.index(zone) for zone in _zones]] = _agent


def _zones_of(owner_of_zone: Any, n_agents: int) -> tuple[Any, Any]:
    """Return each agent's first zone and number of zones. An agent's zones are consecutive."""
    owned = owner_of_zone == np.arange(n_agents)[:, None]
    return owned.argmax(axis=1), owned.sum(axis=1)


FIRST_ZONE_OF_BLUE, N_ZONES_OF_BLUE = _zones_of(BLUE_OF_ZONE, N_BLUE)
FIRST_ZONE_OF_RED, N_ZONES_OF_RED = _zones_of(RED_OF_ZONE, N_RED)
ALPHABETICAL = np.array([ZONES.index(zone) for zone in SORTED_ZONES], np.int64)

# The kinds of processes: services, decoys, processes of sessions, and the shells of exploits.
SSHD, OT_SERVICE, APACHE, MYSQL, SMTP = range(5)
DECOY_APACHE, DECOY_TOMCAT, DECOY_HARAKA, DECOY_VSFTPD = DECOYS.values()
BLUE_SESSION, VELOCIRAPTOR, GREEN_SESSION, RED_SESSION, SHELL = range(9, 14)
N_SERVICES = 9
LISTENS_ON = np.array([22, 1, 80, 3390, 25, 80, 443, 25, 80, 0, 0, 0, 0, 0], np.int64)
"""The port on which a process listens, by the process's kind; 0 if the process does not listen."""
IS_SSH, IS_WEB_SERVER, IS_MYSQL, IS_SMTP = 1, 2, 3, 4
PROCESS_TYPE = np.array([1, 0, 2, 3, 4, 2, 2, 4, 2, 0, 0, 0, 0, 0], np.int64)
USER, UBUNTU, ROOT = range(3)
# The types of red sessions. Only abstract sessions can scan and exploit.
ABSTRACT, BY_SSH, REVERSE_SHELL = range(3)
NO_PARENT = -1
CMD_FILE, ESCALATE_FILE = range(2)

LINKS = {
    INTERNET: (RZA, RZB, CONTRACTOR, PUBLIC),
    RZA: (OZA,),
    RZB: (OZB,),
    PUBLIC: (ADMIN, OFFICE),
}
"""The zones below each zone in the tree of links."""


def _router_routes() -> tuple[Any, Any]:
    """Return the route between the routers of each two zones.

    The first array `[8, 8]` has the number of routers on the route. The second array `[8, 8, 5]`
    has the host numbers of these routers."""
    above = {low: high for high, lows in LINKS.items() for low in lows}

    def ascent(zone: int) -> list[int]:
        """Return the zones from this one to the root of the tree."""
        zones = [zone]
        while zones[-1] in above:
            zones.append(above[zones[-1]])
        return zones

    hops = np.zeros((N_LAN, N_LAN), np.int64)
    routes = np.zeros((N_LAN, N_LAN, 5), np.int64)
    for start in range(N_LAN):
        for end in range(N_LAN):
            up = ascent(start)
            down = ascent(end)
            top = next(zone for zone in up if zone in down)
            zones = up[: up.index(top) + 1]
            zones += reversed(down[: down.index(top)])
            hops[start, end] = len(zones)
            routes[start, end, : len(zones)] = np.array(zones) * PLACES
    return hops, routes


N_HOPS, HOPS = _router_routes()

# By zone: N_LINKED hosts, which PrivilegeEscalate on the zone's first server shows.
N_LINKED = scenario4.LINKED[:N_LAN].sum(axis=1)
LINKED = np.zeros((N_LAN, 3), np.int64)
for _zone, _n in enumerate(N_LINKED):
    LINKED[_zone, :_n] = np.flatnonzero(scenario4.LINKED[_zone]) * PLACES + FIRST_SERVER

# `[3, 9, 9]`, by phase, the green's zone and the server's zone: whether the green may reach it.
GREEN_MAY_REACH = np.zeros((3, N_ZONES, N_ZONES), np.bool_)
_LINKED_BY_PHASE = (
    ((RZA, CONTRACTOR), (OZA, RZA), (RZB, CONTRACTOR), (RZB, RZA), (OZB, RZB)),
    ((RZB, CONTRACTOR), (OZB, RZB)),
    ((RZA, CONTRACTOR), (OZA, RZA)),
)
_LINKED_ALWAYS = tuple(itertools.product((PUBLIC, ADMIN, OFFICE), (CONTRACTOR, RZA, RZB)))
for _phase, _linked in enumerate(_LINKED_BY_PHASE):
    for _zone in range(N_LAN):
        GREEN_MAY_REACH[_phase, _zone, _zone] = True
    for _zone, _other in _linked + _LINKED_ALWAYS:
        GREEN_MAY_REACH[_phase, _zone, _other] = GREEN_MAY_REACH[_phase, _other, _zone] = True


def _policy() -> Any:
    """Return `[3, 9, 9]`, by phase, zone and other zone: 1 if the wrapper's policy is that the zone
    blocks the other zone. The last axis has the zones in the order of `SORTED_ZONES`."""
    connected = np.zeros((3, N_ZONES, N_ZONES), np.bool_)
    clique = (INTERNET, ADMIN, OFFICE, PUBLIC, CONTRACTOR, RZA, RZB)
    for zone in clique:
        for other in clique:
            connected[:, zone, other] = zone != other
    for zone, other in ((RZA, OZA), (RZB, OZB)):
        connected[:, zone, other] = connected[:, other, zone] = True
    for phase, zone, others in (
        (1, RZA, (OZA, CONTRACTOR, RZB, INTERNET)),
        (2, RZB, (OZB, CONTRACTOR, RZA, INTERNET)),
    ):
        for other in others:
            connected[phase, zone, other] = connected[phase, other, zone] = False
    return np.ascontiguousarray(~connected[:, :, ALPHABETICAL], np.int8)


POLICY = _policy()

REWARDS = np.array(scenario4.REWARDS, np.int64)
