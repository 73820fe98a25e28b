"""CAGE Challenge 4 from Red's side: what each of the six red agents can do and see.

A host's number is its index in `scenario4.HOST_NAMES`. An agent can learn of the hosts of its own
zones. An escalation on the first server of an own zone also shows the first servers of linked
zones. CybORG accepts an action only if the agent knows the action's target. CybORG replaces other
actions by InvalidActions, which fail.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.team import TeamLayout
from workflow_rl.cage4.agent.views import edges_among
from workflow_rl.cage4.compiled import actions, constants
from workflow_rl.cage4.compiled.red_tables import STATES
from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES, MISSION_PHASES, ZONES

RED_TEAM = tuple(f"red_agent_{i}" for i in range(constants.N_RED))
HOST_KINDS = (
    actions.AGGRESSIVE_SCAN,
    actions.STEALTH_SCAN,
    actions.EXPLOIT,
    actions.ESCALATE,
    actions.DEGRADE,
    actions.DECEPTION,
    actions.IMPACT,
    actions.WITHDRAW,
)
"""Kinds of actions on hosts, in the order of an agent's actions."""
NEEDS_NAME = (actions.ESCALATE, actions.DEGRADE, actions.IMPACT, actions.WITHDRAW)
"""Kinds that need the name of a host. An agent that knows the name also knows the address."""
FIRST_KNOWN = -1
"""Stands for the id of the agent's first session that can scan. If no session can scan, it stands
for the first id that the agent learned."""


class RedAction(NamedTuple):
    """A red agent's action. kind: its class in CybORG. target: a host's or zone's name, or ""."""

    kind: str
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.target}".rstrip()


def _zones(agent: int) -> list[int]:
    return [zone for zone in range(constants.N_ZONES) if constants.RED_OF_ZONE[zone] == agent]


def _hosts(agent: int) -> list[int]:
    """Return an agent's own hosts in CybORG's order, then other hosts that it can learn of."""
    own_hosts = [
        zone * constants.PLACES + place
        for zone in _zones(agent)
        for place in range(constants.FIRST_USER, constants.PLACES)
    ]
    linked = {
        int(host)
        for zone in _zones(agent)
        for host in constants.LINKED[zone, : constants.N_LINKED[zone]]
    }
    return own_hosts + sorted(linked - set(own_hosts))


RED_ZONES = tuple(_zones(agent) for agent in range(constants.N_RED))
RED_HOSTS = tuple(_hosts(agent) for agent in range(constants.N_RED))
"""The numbers of each agent's hosts: 17 to 49 hosts."""
MOST_HOSTS = max(map(len, RED_HOSTS))
N_HOSTS_OF = np.array([len(hosts) for hosts in RED_HOSTS])
N_ZONES_OF = constants.N_ZONES_OF_RED
HOST_AT = np.zeros((constants.N_RED, MOST_HOSTS), np.int64)
PLACE_OF = np.full((constants.N_RED, constants.N_HOSTS), -1)
"""HOST_AT gives a host's number, by agent and index in RED_HOSTS. PLACE_OF gives that index, by
agent and host number. It is -1 if the agent cannot learn of the host."""
for _agent, _of_agent in enumerate(RED_HOSTS):
    HOST_AT[_agent, : len(_of_agent)] = _of_agent
    PLACE_OF[_agent, _of_agent] = np.arange(len(_of_agent))


def _choices(agent: int) -> list[tuple[int, int]]:
    """Return an agent's actions, each as a kind and a target: Sleep, then zones, then hosts."""
    discoveries = [(actions.DISCOVER, zone) for zone in RED_ZONES[agent]]
    on_hosts = [(kind, host) for kind in HOST_KINDS for host in RED_HOSTS[agent]]
    return [(actions.RED_SLEEP, 0), *discoveries, *on_hosts]


_CHOICES = tuple(_choices(agent) for agent in range(constants.N_RED))
N_RED_CHOICES = tuple(map(len, _CHOICES))
KIND_OF, TARGET_OF = np.zeros((2, constants.N_RED, max(N_RED_CHOICES)), np.int64)
"""`[6, 396]` each, by agent and index: an action's kind, and the number of its host or zone."""
for _agent, _choices_of_agent in enumerate(_CHOICES):
    for _index, (_kind, _target) in enumerate(_choices_of_agent):
        KIND_OF[_agent, _index], TARGET_OF[_agent, _index] = _kind, _target


def _named(kind: int, target: int) -> RedAction:
    if kind == actions.RED_SLEEP:
        return RedAction("Sleep")
    names = ZONES if kind == actions.DISCOVER else HOST_NAMES
    return RedAction(actions.RED_ACTIONS[kind], names[target])


RED_CHOICES = tuple(tuple(_named(*choice) for choice in choices) for choices in _CHOICES)
"""Each red agent's actions, by index. Index 0 is Sleep, which is always possible."""

# An agent's observation has facts about the agent, then the first feature of all hosts, and so on.
N_SUCCESS, N_KINDS = 4, actions.WITHDRAW + 2
SUCCESS = len(MISSION_PHASES)
KIND = SUCCESS + N_SUCCESS
ACTIVE = KIND + N_KINDS
KNOWN_ZONES = ACTIVE + 1
"""The indices at which the facts begin. The phase begins at 0. SUCCESS: the outcome of the last
action. KIND: the kind of the action that took effect; the last kind is InvalidAction. ACTIVE:
whether the agent has sessions. KNOWN_ZONES: the zones that the agent knows."""
PORTS = (22, 1, 80, 3390, 25, 443)
(ADDRESS, NAME, SHOWN, GAINED, SESSION, ROOT, ABSTRACT, ACTS_FROM, SERVER, OWN, PORT) = range(11)
STATE = PORT + len(PORTS)
N_FEATURES = STATE + len(STATES)
"""The features of a host. The agent knows its address (ADDRESS) and its name (NAME). The last
observation shows the host (SHOWN), with a session that was gained (GAINED). On the host, the agent
has a session (SESSION), root's session (ROOT), a session that can scan (ABSTRACT), or the session
of FIRST_KNOWN (ACTS_FROM). The host is a server (SERVER), and is in an own zone (OWN). From PORT:
the open ports that FIRST_KNOWN's session found. From STATE: `FiniteStateRedAgent`'s host state.
"""
N_FACTS = KNOWN_ZONES + N_ZONES_OF
RED_OBS_SIZES = tuple((N_FACTS + N_FEATURES * N_HOSTS_OF).tolist())
FIRST_RED_OBS = np.cumsum((0, *RED_OBS_SIZES))[:-1]
FIRST_STATUS = sum(RED_OBS_SIZES)
FIRST_RED_CHOICE = FIRST_STATUS + np.cumsum((constants.N_RED, *N_RED_CHOICES))[:-1]
N_RED_ROW = FIRST_STATUS + constants.N_RED + sum(N_RED_CHOICES)
"""A row of `red_layout` has each agent's observation, the status of all agents, and each agent's
mask. These are the indices at which the parts begin. N_RED_ROW is the length of a row."""


def known_choices(
    agent: int, addresses: NDArray[np.bool_], names: NDArray[np.bool_], zones: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return whether an agent knows the target of each of its actions, `[N_RED_CHOICES[agent]]`.

    addresses, names, zones: whether the agent knows the address or the name of each of its hosts,
        and each of its zones.
    """
    parts = [names if kind in NEEDS_NAME else addresses for kind in HOST_KINDS]
    return np.concatenate([[True], zones, *parts])


def checked_red_choices(choices: Any) -> NDArray[np.int16]:
    """Return what red agents choose, `[..., 6]`, indices of `RED_CHOICES`. Raises ValueError."""
    indices = np.asarray(choices)
    if indices.dtype.kind not in "iu" or indices.shape[-1:] != (len(N_RED_CHOICES),):
        raise ValueError(f"choices: {len(N_RED_CHOICES)} integers are needed, one for each agent")
    wrong = np.argwhere((indices < 0) | (indices >= N_RED_CHOICES))
    if len(wrong):
        agent = wrong[0][-1]
        raise ValueError(f"choices: red agent {agent} has 0 to {N_RED_CHOICES[agent] - 1}")
    return indices.astype(np.int16)


def checked_red_sessions(sessions: Any) -> NDArray[np.int16]:
    """Return session ids of red agents, each an id or FIRST_KNOWN. Raises ValueError."""
    ids, most = np.asarray(sessions), np.iinfo(np.int16).max
    if ids.dtype.kind not in "iu" or ((ids < FIRST_KNOWN) | (ids > most)).any():
        raise ValueError(f"sessions: ids from 0 to {most} are needed, or {FIRST_KNOWN}")
    return ids.astype(np.int16)


def _entities(agent: int) -> Mapping[str, Any]:
    """Return the tables of an agent's hosts: see `agents.team.TeamLayout`."""
    hosts = np.array(RED_HOSTS[agent])
    is_server = constants.PLACE[hosts] >= constants.FIRST_SERVER
    n_hosts, n_plain = len(hosts), 1 + int(N_ZONES_OF[agent])
    features = N_FACTS[agent] + np.arange(n_hosts * N_FEATURES).reshape(N_FEATURES, n_hosts).T
    plain = [[i, -1] for i in range(n_plain)]
    on_hosts = [[verb, host] for verb in range(len(HOST_KINDS)) for host in range(n_hosts)]
    return {
        "features": features.tolist(),
        "actions": plain + on_hosts,
        "present": features[:, ADDRESS].tolist(),
        "edges": edges_among(constants.ZONE[hosts], is_server),
    }


def red_layout() -> TeamLayout:
    """Return the layout of the red team's rows."""
    entities = tuple(_entities(agent) for agent in range(constants.N_RED))
    return TeamLayout(RED_TEAM, RED_OBS_SIZES, N_RED_CHOICES, masked=True, entities=entities)
