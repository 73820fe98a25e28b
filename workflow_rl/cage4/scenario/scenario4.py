"""CAGE Challenge 4: zones, hosts, phases, rewards, blue actions, and where observations have them.

A network has some of these hosts in each episode. The order of hosts and actions is that of
CybORG's `BlueFixedActionWrapper`, and never changes.
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
"""Names of CybORG's classes. Every red agent of an episode is of one class."""
FROM_OUTSIDE = "from outside"
"""In the place of a class's name: the caller chooses what the red agents do. See `red_api`."""
RED_CLASSES = (*RED_AGENTS, FROM_OUTSIDE)
"""In the order of `compiled.red_tables`."""
OBS_SIZES = (92, 92, 92, 92, 210)
N_ACTIONS = (82, 82, 82, 82, 242)
SLEEP_ACTIONS = (49, 49, 49, 49, 145)
"""Each agent's index of the action Sleep, which is always possible."""
MESSAGE_BITS = 8
N_MESSAGE_BITS = (len(AGENTS) - 1) * MESSAGE_BITS
"""The last entries of an observation: the messages of the other agents."""
MAX_STEPS = 500
"""Length of an episode in the challenge. Its last step is step 499: see
`simulator_protocol.StepResult`."""
LEAST_STEPS = 3
"""A shorter episode has no step in each phase, and CybORG then fails."""
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
PLACES = 1 + HOSTS_OF_A_ZONE
"""The hosts of a zone with its router."""
N_HOSTS = (len(ZONES) - 1) * PLACES + 1
SHOWN_ZONES = ((1, 4), (0,), (3, 4), (2,), (0, 2, 5), (4, 6, 7), (5,), (5,))
"""By zone: red's PrivilegeEscalate on the first server shows the first servers of these zones."""
MISSION_PHASES = ("Preplanning", "MissionA", "MissionB")
PHASE_STARTS = (0, 167, 334)
"""The first step of each phase in an episode of MAX_STEPS."""
COUNTED_STEPS = MAX_STEPS - 2
"""Steps of an episode whose rewards the challenge counts: not the step that ends it, 499."""
_HQ = ((-1, -1, -3),) * 3
REWARDS = (
    (
        (-1, -3, -1),
        (-1, -1, -1),
        (-1, -3, -1),
        (-1, -1, -1),
        (0, -5, -5),
        *_HQ,
        (0, 0, -1),
    ),
    ((-2, -1, -3), (-10, 0, -10), (-1, -1, -1), (-1, -1, -1), (0, 0, 0), *_HQ, (0, 0, 0)),
    ((-1, -3, -3), (-1, -1, -1), (-2, -1, -3), (-10, 0, -10), (0, 0, 0), *_HQ, (0, 0, 0)),
)
"""By phase and zone: a green's failed work, a green's failed access, a red's impact."""
FAILED_WORK, FAILED_ACCESS, IMPACT_COST = range(3)
DECISIVE_PHASES = tuple(
    (zone, phase)
    for phase, rewards in enumerate(REWARDS)
    for zone, prices in enumerate(rewards)
    if prices[FAILED_WORK] == -10
)
"""Zone and phase in which a green's failed work costs 10."""
TRUE, UNKNOWN, FALSE, IN_PROGRESS = OUTCOMES.values()

MOST_OF_SCENARIO = {"longest_red_action": 4, "users": N_USERS, "servers": N_SERVERS}
"""The largest numbers in a `Scenario`, from 1. The longest red action is the exploit."""


@dataclass(frozen=True)
class Scenario:
    """What can be changed of the challenge. The defaults are the challenge.

    phishing_rate: how often green's successful work opens a session for red.
    false_alert_rate: how often green's successful work makes an event of a process, and green's
        successful access to a server an event of a connection.
    aggressive_scan_detection, stealth_scan_detection: how often blue sees red's scan of a host.
    longest_red_action: the most steps that an action of red's takes, 1 to 4.
    users, servers: of every zone but the internet. None: drawn, 3 to 10 and 1 to 6.

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
            value, is_count = getattr(self, field.name), field.name in MOST_OF_SCENARIO
            if value is None and field.default is None:
                continue
            least, most = (1, MOST_OF_SCENARIO[field.name]) if is_count else (0, 1)
            is_number = isinstance(value, Integral if is_count else Real)
            if isinstance(value, bool) or not (is_number and least <= value <= most):
                raise ValueError(f"{field.name}={value!r}: choose {least} to {most}")
            # NumPy's numbers become Python's, which JSON can hold.
            object.__setattr__(self, field.name, int(value) if is_count else float(value))

    @staticmethod
    def among(values: Mapping[str, Any]) -> Scenario:
        """Return the scenario whose values are among others. What is missing is the challenge's."""
        names = [field.name for field in fields(Scenario)]
        return Scenario(**{name: values[name] for name in names if name in values})

    @property
    def values(self) -> tuple[float | None, ...]:
        """The values, without those that a subclass adds."""
        return tuple(getattr(self, field.name) for field in fields(Scenario))

    @property
    def changes(self) -> str:
        """The values that are not the challenge's, in words, or ""."""
        values = zip(fields(Scenario), self.values, strict=True)
        changed = [f"{field.name} {value}" for field, value in values if value != field.default]
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
"""Our reading of the variants in Kiely et al. (AAAI 2025, volume 39(28), Table 2). Their code is
not public."""
SCENARIOS = {"challenge": CHALLENGE, **VARIANTS}


def scenarios_of(args: Mapping[str, Any]) -> dict[str, Scenario]:
    """Return the scenarios that arguments choose: those of their names, or the one of values by the
    name ""."""
    named = {name: SCENARIOS[name] for name in args.get("scenarios", ())}
    return named or {"": Scenario.among(args)}


def zone_hosts(zone: str) -> list[str]:
    """Return the names of the 16 hosts that a zone may have, its router left out, sorted."""
    servers = [f"{zone}_server_host_{i}" for i in range(N_SERVERS)]
    return servers + [f"{zone}_user_host_{i}" for i in range(N_USERS)]


INTERNET_HOST = "root_internet_host_0"


def _host_names() -> tuple[str, ...]:
    """Return the names of all hosts as CybORG lists them: 17 places a zone (a router, 10 users, 6
    servers), of which an episode uses some; then the host of the internet."""
    names = []
    for zone in ZONES[:-1]:
        servers, users = np.split(zone_hosts(zone), [N_SERVERS])
        names += [f"{zone}_router", *users.tolist(), *servers.tolist()]
    return (*names, INTERNET_HOST)


HOST_NAMES = _host_names()
"""By a host's number."""
HOST_NUMBERS = {name: number for number, name in enumerate(HOST_NAMES)}
LINKED = np.zeros((len(ZONES), len(ZONES)), np.bool_)
"""Pairs of zones: from the first server of one, Red learns of the first server of the other."""
for _zone, _others in enumerate(SHOWN_ZONES):
    LINKED[_zone, _others] = True
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
_KINDS = [[action.kind for action in actions] for actions in ACTIONS]
FIRST_OF_KIND = {kind: np.array([kinds.index(kind) for kinds in _KINDS]) for kind in BLUE}
"""By kind: each agent's first action of that kind. Those on hosts are in the order of hosts."""

# A row of observations `[578]` and a row of masks `[570]` have the parts of agents 0 to 4 one after
# the other. The zones that have an agent are the seven *own zones*, agent by agent.
N_OBS, N_MASKS = sum(OBS_SIZES), sum(N_ACTIONS)
FIRST_OBS = np.cumsum((0, *OBS_SIZES))[:-1]
FIRST_ACTION = np.cumsum((0, *N_ACTIONS))[:-1]
"""Where an agent's part begins in a row."""
OWN_ZONES = tuple((agent, i) for agent, zones in enumerate(AGENT_ZONES) for i in range(len(zones)))
"""Agent, and number among the agent's zones: restricted A, operational A, restricted B, operational
B, admin, office, public access."""
N_ZONES_OF_AGENT = np.array([len(zones) for zones in AGENT_ZONES])
FIRST_ZONE_OF_AGENT = np.cumsum((0, *N_ZONES_OF_AGENT))[:-1]
"""Of each agent, among the own zones."""
BITS_ABOUT_ZONES = 3 * len(ZONES)
BITS_OF_A_ZONE = BITS_ABOUT_ZONES + 2 * HOSTS_OF_A_ZONE
"""What an observation shows of a zone: its name, the zones that it blocks and those that it should
block; then the events of processes on its hosts, and those of connections."""


def _rows_of_hosts(first: list[int], step: int) -> NDArray[np.int64]:
    zones = [first[agent] + step * i for agent, i in OWN_ZONES]
    return np.array(zones)[:, None] + np.arange(HOSTS_OF_A_ZONE)


PROCESSES = _rows_of_hosts((FIRST_OBS + 1 + BITS_ABOUT_ZONES).tolist(), BITS_OF_A_ZONE)
"""Where a row of observations has the events of processes on the hosts `[7, 16]` of own zones."""
ON_HOSTS = {
    kind: _rows_of_hosts((FIRST_ACTION + FIRST_OF_KIND[kind]).tolist(), HOSTS_OF_A_ZONE)
    for kind, about in BLUE.items()
    if about.on_host
}
"""By kind: where a row of masks has the actions on the hosts `[7, 16]` of own zones."""
