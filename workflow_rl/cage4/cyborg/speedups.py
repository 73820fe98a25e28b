"""The copy of CybORG 4 that is sped up without changing one bit of an episode.

CybORG spends most of a step on results that nobody reads. It describes the whole network for
rewards that depend on a few actions. It observes for greens and blues, and drops the observations.
It searches for routes in a tree that never changes. Each function below leaves out work of this
kind, or gets the result in another way. The function's docstring says why the result is exact. The
functions replace methods in a private copy of the package: see `private_cyborg`. `episode` replaces
the loop that calls these methods.

CybORG's own code still plays the red agents, and the actions of blue and red. The order of random
draws is unchanged. Tests compare whole episodes with the published CybORG.
"""

import inspect
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

from workflow_rl.cage4.cyborg.private_cyborg import Cyborg

ACTIONS = "Simulator.Actions"


@cache
def sped_up_cyborg() -> Cyborg:
    """Return the copy of CybORG whose methods are replaced by the functions of this module."""
    cyborg = Cyborg()
    for enum in vars(cyborg["Shared.Enums"]).values():
        if hasattr(enum, "parse_string"):
            # The result of parsing depends only on the string.
            enum.parse_string = staticmethod(cache(enum.parse_string))
    agents = "Agents.SimpleAgents"
    vars(cyborg["Shared.ActionSpace"])["signature"] = cache(inspect.signature)
    vars(cyborg[f"{agents}.FiniteStateRedAgent"])["signature"] = cache(inspect.signature)
    vars(cyborg[f"{agents}.RandomSelectRedAgent"])["inspect"] = SimpleNamespace(
        getfullargspec=cache(inspect.getfullargspec)
    )
    # Agents make their own generators, which the episode's generator replaces before any draw.
    vars(cyborg[f"{agents}.BaseAgent"])["seeding"] = SimpleNamespace(np_random=lambda: (None, None))
    remote_action = cyborg[f"{ACTIONS}.Action"].RemoteAction
    remote_action.get_route = staticmethod(route_once(remote_action.get_route))
    cyborg[f"{ACTIONS}.AbstractActions.Monitor"].Monitor.execute = move_events
    session_check = cyborg[f"{ACTIONS}.ConcreteActions.RedSessionCheck"].RedSessionCheck
    session_check._all_red_sessions_observation = red_sessions_observation
    cyborg["Simulator.Host"].Host.get_ephemeral_port = get_ephemeral_port
    return cyborg


class UsedPorts(list[int]):
    """A host's used ports in their order, with a fast look-up."""

    def __init__(self) -> None:
        super().__init__()
        self._ports: set[int] = set()

    def append(self, port: int) -> None:
        super().append(port)
        self._ports.add(port)

    def __contains__(self, port: object) -> bool:
        return port in self._ports


def get_ephemeral_port(host: Any) -> int:
    """`Host.get_ephemeral_port`: look a port up without reading the list of used ports.

    At the start and in a Restore, CybORG sets an empty list, which this function replaces.
    """
    if not host.ephemeral_ports:
        host.ephemeral_ports = UsedPorts()
    ports = host.ephemeral_ports
    port: int = host.np_random.integers(49152, 60000)
    if port in ports:
        port = host.np_random.integers(49152, 60000)
    ports.append(port)
    return port


def route_once(get_route: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """`RemoteAction.get_route`: find each route of an episode once.

    The links form a tree that never changes, so two hosts have exactly one route. If a firewall
    blocks this route, CybORG finds no other route, and takes the route through the firewall.
    """

    def known_route(state: Any, target: str, source: str, routing: bool = False) -> list[str]:
        routes: dict[tuple[str, str], list[str]] = vars(state).setdefault("routes", {})
        if (source, target) not in routes:
            routes[source, target] = get_route(state, target, source)
        return routes[source, target]

    return known_route


def move_events(action: Any, state: Any) -> None:
    """`Monitor.execute`: move the events without copying or describing them.

    The result is exact, because no event changes. Vectors and dictionaries of blue agents are made
    from the events: see `vectors` and `raw_observations`.
    """
    session = state.sessions[action.agent][action.session]
    for velociraptor in (*session.children.values(), session):
        hostname = velociraptor.hostname
        events = state.hosts[hostname].events
        for event in events.network_connections:
            if event.pid:
                session.add_sus_pids(hostname=hostname, pid=event.pid)
        for event in events.process_creation:
            if "pid" in event:
                session.add_sus_pids(hostname=hostname, pid=event["pid"])
        events.old_network_connections = events.network_connections
        events.old_process_creation = events.process_creation
        events.network_connections = []
        events.process_creation = []


def red_sessions_observation(action: Any, state: Any, obs: Any) -> Any:
    """`RedSessionCheck._all_red_sessions_observation`: make equal entries in one loop."""
    for session in state.sessions[action.agent].values():
        hostname = session.hostname
        if hostname not in obs.data:
            zone = state.hostname_subnet_map[hostname]
            obs.data[hostname] = {
                "Sessions": [],
                "Interface": [
                    {
                        "ip_address": state.hostname_ip_map[hostname],
                        "Subnet": state.subnet_name_to_cidr[zone],
                    }
                ],
                "System info": {"Hostname": hostname},
            }
        obs.data[hostname]["Sessions"].append(
            {
                "session_id": session.ident,
                "username": session.username,
                "Type": session.session_type,
                "agent": action.agent,
            }
        )
    return obs
