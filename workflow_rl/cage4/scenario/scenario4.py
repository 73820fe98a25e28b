"""CAGE Challenge 4: zones, hosts, phases, rewards, blue actions, and the layout of observations.

An episode's network has some of these hosts. In every episode, hosts and actions have the order of
CybORG's `BlueFixedActionWrapper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.scenario.actions import BLUE, OUTCOMES

ENV_ID = "workflow_rl/CAGE4-v0"
RED_ENV_ID = "workflow_rl/CAGE4-red-v0"
AGENTS = tuple(f"blue_agent_{i}" for i in range(5))
RED_AGENTS = ("FiniteStateRedAgent", "DiscoveryFSRed", "RandomSelectRedAgent", "SleepAgent")
"""Names of CybORG's classes. All red agents of an episode are of one class."""
FROM_OUTSIDE = "from outside"
"""This name means that the caller chooses what the red agents do: see `red_api`."""
RED_CLASSES = (*RED_AGENTS, FROM_OUTSIDE)
"""The order is that of the numbers in `compiled.red_tables`."""
OBS_SIZES = (92, 92, 92, 92, 210)
N_ACTIONS = (82, 82, 82, 82, 242)
SLEEP_ACTIONS = (49, 49, 49, 49, 145)
"""The index of Sleep among each agent's actions. Sleep is always possible."""
MESSAGE_BITS = 8
N_MESSAGE_BITS = (len(AGENTS) - 1) * MESSAGE_BITS
"""The number of an observation's last entries, which are the other agents' messages."""
MAX_STEPS = 500
"""Length of the challenge's episodes. The last step is step 499: see
`simulator_protocol.StepResult`."""
LEAST_STEPS = 3
"""CybORG fails in a shorter episode, because a phase would have no step."""
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
"""The zones in the order in which CybORG draws their addresses."""
SORTED_ZONES = tuple(sorted(ZONES))
"""The zones in the order of observations and actions."""
AGENT_ZONES = (
    ZONES[0:1],
    ZONES[1:2],
    ZONES[2:3],
    ZONES[3:4],
    ("admin_network_subnet", "office_network_subnet", "public_access_zone_subnet"),
)
"""The zones that each blue agent defends, sorted."""
N_SERVERS = 6
N_USERS = 10
"""The most servers and user hosts of a zone."""
HOSTS_OF_A_ZONE = N_SERVERS + N_USERS
PLACES = 1 + HOSTS_OF_A_ZONE
"""The most hosts of a zone, its router included."""
N_HOSTS = (len(ZONES) - 1) * PLACES + 1
SHOWN_ZONES = ((1, 4), (0,), (3, 4), (2,), (0, 2, 5), (4, 6, 7), (5,), (5,))
"""By zone: PrivilegeEscalate on the zone's first server shows the first servers of these zones."""
MISSION_PHASES = ("Preplanning", "MissionA", "MissionB")
PHASE_STARTS = (0, 167, 334)
"""The first step of each phase in an episode of MAX_STEPS."""
COUNTED_STEPS = MAX_STEPS - 2
"""How many steps' rewards the challenge counts. Step 499, which ends an episode, does not count."""
_HQ = ((-1, -1, -3),) * 3
REWARDS = (
    ((-1, -3, -1), (-1, -1, -1), (-1, -3, -1), (-1, -1, -1), (0, -5, -5), *_HQ, (0, 0, -1)),
    ((-2, -1, -3), (-10, 0, -10), (-1, -1, -1), (-1, -1, -1), (0, 0, 0), *_HQ, (0, 0, 0)),
    ((-1, -3, -3), (-1, -1, -1), (-2, -1, -3), (-10, 0, -10), (0, 0, 0), *_HQ, (0, 0, 0)),
)
"""By phase and zone: the rewards of a green's failed work, a green's failed access, red's Impact.
FAILED_WORK, FAILED_ACCESS and IMPACT_COST are the indices of these rewards."""
FAILED_WORK, FAILED_ACCESS, IMPACT_COST = range(3)
DECISIVE_PHASES = tuple(
    (zone, phase)
    for phase, rewards in enumerate(REWARDS)
    for zone, prices in enumerate(rewards)
    if prices[FAILED_WORK] == -10
)
"""Pairs of a zone and the phase in which a green's failed work in this zone costs 10."""
TRUE, UNKNOWN, FALSE, IN_PROGRESS = OUTCOMES.values()

MOST_OF_SCENARIO = {"longest_red_action": 4, "users": N_USERS, "servers": N_SERVERS}
"""The upper bounds of a `Scenario`'s counts. The lower bound is 1. Red's exploit takes 4 steps."""


@dataclass(frozen=True)
class Scenario:
    """The values of the challenge that users can change. The defaults are the challenge's values.

    phishing_rate: the probability that green's successful work opens a session for red.
    false_alert_rate: the probability of a false alert. Green's successful work may cause an event
        of a process. Green's successful access to a server may cause an event of a connection.
    aggressive_scan_detection, stealth_scan_detection: the probability that blue sees red's scan.
    longest_red_action: the longest duration of a red action, 1 to 4 steps.
    users, servers: how many user hosts and servers each zone except the internet has. If None, an
        episode draws 3 to 10 user hosts and 1 to 6 servers for each zone.

    Raises ValueError if a value is out of range.
    """

    phishing_rate: float = 0.01
    false_alert_rate: float = 0.01
    aggressive_scan_detection: float = 0.75
    stealth_scan_detection: float = 0.25
    longest_red_action: int = 4
    users: int | None = None
    servers: int | None = None

    def __post_init__(self) -> None:
        for field in fields(Scenario):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            is_count = field.name in MOST_OF_SCENARIO
            least, most = (1, MOST_OF_SCENARIO[field.name]) if is_count else (0, 1)
            number_type = Integral if is_count else Real
            is_number = isinstance(value, number_type)
            if isinstance(value, bool) or not (is_number and least <= value <= most):
                raise ValueError(f"{field.name}={value!r}: choose {least} to {most}")
            # NumPy's numbers become Python's numbers, because JSON cannot hold NumPy's.
            object.__setattr__(self, field.name, int(value) if is_count else float(value))

    @staticmethod
    def among(values: Mapping[str, Any]) -> Scenario:
        """Return the scenario of these values. Other names are ignored. A missing value is the
        challenge's value."""
        names = [field.name for field in fields(Scenario)]
        return Scenario(**{name: values[name] for name in names if name in values})

    @property
    def values(self) -> tuple[float | None, ...]:
        """The values of the fields above, without fields that a subclass adds."""
        return tuple(getattr(self, field.name) for field in fields(Scenario))

    @property
    def changes(self) -> str:
        """The values that differ from the challenge's, in words, or ""."""
        pairs = zip(fields(Scenario), self.values, strict=True)
        changed = [f"{field.name} {value}" for field, value in pairs if value != field.default]
        return ", ".join(changed).replace("_", " ")


CHALLENGE = Scenario()
VARIANTS = {
    "constant-size": Scenario(users=6, servers=3),
    "more-phishing": Scenario(phishing_rate=0.75),
    "stealthy-red": Scenario(
        false_alert_rate=0.75, aggressive_scan_detection=0.01, stealth_scan_detection=0.01
    ),
    "aggressive-red": Scenario(longest_red_action=1),
}
"""The variants of Kiely et al. (AAAI 2025, volume 39(28), Table 2), as their text describes them.
The code of that paper is not public."""
SCENARIOS = {"challenge": CHALLENGE, **VARIANTS}


def scenarios_of(args: Mapping[str, Any]) -> dict[str, Scenario]:
    """Return the scenarios that the argument `scenarios` names, by name. Without names, return the
    scenario of the other arguments' values, by the name ""."""
    named = {name: SCENARIOS[name] for name in args.get("scenarios", ())}
    return named or {"": Scenario.among(args)}


def zone_hosts(zone: str) -> list[str]:
    """Return the sorted names of the 16 hosts that a zone may have, without its router."""
    servers = [f"{zone}_server_host_{i}" for i in range(N_SERVERS)]
    return servers + [f"{zone}_user_host_{i}" for i in range(N_USERS)]


INTERNET_HOST = "root_internet_host_0"


def _host_names() -> tuple[str, ...]:
    """Return the names of all hosts in CybORG's order. Each zone has 17 names: a router, 10 user
    hosts and 6 servers. An episode has some of these hosts. The internet's host is last."""
    names = []
    for zone in ZONES[:-1]:
        hosts = zone_hosts(zone)
        names += [f"{zone}_router", *hosts[N_SERVERS:], *hosts[:N_SERVERS]]
    return (*names, INTERNET_HOST)


HOST_NAMES = _host_names()
"""A host's number is the index of its name."""
HOST_NUMBERS = {name: number for number, name in enumerate(HOST_NAMES)}
LINKED = np.zeros((len(ZONES), len(ZONES)), np.bool_)
"""`LINKED[i, j]`: zone j is in `SHOWN_ZONES[i]`."""
for _zone, _others in enumerate(SHOWN_ZONES):
    LINKED[_zone, _others] = True
AGENT_HOSTS = tuple([host for zone in zones for host in zone_hosts(zone)] for zones in AGENT_ZONES)
"""The names of each blue agent's hosts: 16 for agents 0 to 3, and 48 for agent 4."""


class BlueAction(NamedTuple):
    """An action of a blue agent.

    kind: the name of CybORG's class. host: the target, or "" if the kind has no target host.
    to_zone, from_zone: the direction of the traffic that AllowTrafficZone or BlockTrafficZone
    allows or blocks; "" for all other kinds.
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
_KINDS = [[action.kind for action in actions] for actions in ACTIONS]
FIRST_OF_KIND = {kind: np.array([kinds.index(kind) for kinds in _KINDS]) for kind in BLUE}
"""By kind: the index of each agent's first action of that kind, `[5]`. If the kind has target
hosts, its actions follow one another in the order of the hosts."""

# A row of observations `[578]` joins the observations of agents 0 to 4. A row of masks `[570]`
# joins the agents' masks. The *own zones* are the seven zones that agents defend, agent by agent.
N_OBS, N_MASKS = sum(OBS_SIZES), sum(N_ACTIONS)
FIRST_OBS = np.cumsum((0, *OBS_SIZES))[:-1]
FIRST_ACTION = np.cumsum((0, *N_ACTIONS))[:-1]
"""The index in a row at which each agent's part begins, `[5]`."""
OWN_ZONES = tuple((agent, i) for agent, zones in enumerate(AGENT_ZONES) for i in range(len(zones)))
"""For each own zone, its agent, and its index in `AGENT_ZONES[agent]`. The order is restricted A,
operational A, restricted B, operational B, admin, office, public access."""
N_ZONES_OF_AGENT = np.array([len(zones) for zones in AGENT_ZONES])
FIRST_ZONE_OF_AGENT = np.cumsum((0, *N_ZONES_OF_AGENT))[:-1]
"""The index among the own zones of each agent's first zone, `[5]`."""
BITS_ABOUT_ZONES = 3 * len(ZONES)
BITS_OF_A_ZONE = BITS_ABOUT_ZONES + 2 * HOSTS_OF_A_ZONE
"""The size of a zone's part of an observation. The part has the zone's name, the zones that the
zone blocks, the zones that the zone should block, a bit of each host for events of processes, and a
bit of each host for events of connections."""


def _indices_of_hosts(first: list[int], step: int) -> NDArray[np.int64]:
    """Return the hosts' indices in a row `[7, 16]`. An agent's zones are `step` apart, from
    `first[agent]`."""
    zones = [first[agent] + step * i for agent, i in OWN_ZONES]
    return np.array(zones)[:, None] + np.arange(HOSTS_OF_A_ZONE)


PROCESSES = _indices_of_hosts((FIRST_OBS + 1 + BITS_ABOUT_ZONES).tolist(), BITS_OF_A_ZONE)
"""The indices in a row of observations of the events of processes, by own zone and host `[7, 16]`.
"""
ON_HOSTS = {
    kind: _indices_of_hosts((FIRST_ACTION + FIRST_OF_KIND[kind]).tolist(), HOSTS_OF_A_ZONE)
    for kind, about in BLUE.items()
    if about.on_host
}
"""By kind: the indices in a row of masks of that kind's actions, by own zone and host `[7, 16]`."""
