"""Counts of what happens seldom in an episode of CybORG 4, on the sped-up copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from workflow_rl.cage4.cyborg.episode import Episode
from workflow_rl.cage4.cyborg.speedups import sped_up_cyborg

RARE_PATHS = (
    "session 0 promoted",
    "plain session promoted",
    "session moved",
    "PID reused",
    "reused PID killed",
    "phishing from outside the zone",
    "used port redrawn",
)
ACTIONS = "Simulator.Actions.ConcreteActions"


@contextmanager
def counted_rare_paths() -> Iterator[Counter[str]]:
    """Count RARE_PATHS in the episodes that begin and end inside, in this thread."""
    counts: Counter[str] = Counter(dict.fromkeys(RARE_PATHS, 0))
    cyborg = sped_up_cyborg()
    check = cyborg[f"{ACTIONS}.RedSessionCheck"].RedSessionCheck
    controller = cyborg["Simulator.SimulationController"].SimulationController
    host = cyborg["Simulator.Host"].Host
    with ExitStack() as originals:
        for owner, name, counting in (
            (check, "_choose_new_primary_session", _promotion),
            (controller, "different_subnet_agent_reassignment", _move),
            (host, "create_pid", _pid),
            (host, "get_ephemeral_port", _port),
            (cyborg[f"{ACTIONS}.StopProcess"].StopProcess, "kill_process", _kill),
            (cyborg[f"{ACTIONS}.PhishingEmail"].PhishingEmail, "execute", _phishing),
        ):
            original = getattr(owner, name)
            setattr(owner, name, counting(original, counts))
            originals.callback(setattr, owner, name, original)
        yield counts


Method = Callable[..., Any]


def _promotion(original: Method, counts: Counter[str]) -> Method:
    def promote(action: Any, sessions: dict[int, Any], state: Any) -> None:
        original(action, sessions, state)
        counts["session 0 promoted"] += 1
        counts["plain session promoted"] += type(sessions[0]).__name__ == "Session"

    return promote


def _move(original: Method, counts: Counter[str]) -> Method:
    def move(episode: Episode) -> None:
        zones = episode.state.hostname_subnet_map
        for name, interface in episode.agent_interfaces.items():
            if name.startswith("red"):
                counts["session moved"] += sum(
                    zones[session.hostname].value not in interface.allowed_subnets
                    for session in episode.state.sessions[name].values()
                )
        original(episode)

    return move


def _pid(original: Method, counts: Counter[str]) -> Method:
    def create_pid(host: Any) -> int:
        pid: int = original(host)
        known = vars(host).setdefault("pids_given", Counter())
        counts["PID reused"] += pid in known
        known[pid] += 1
        return pid

    return create_pid


def _kill(original: Method, counts: Counter[str]) -> Method:
    def kill(action: Any, state: Any, host: Any, process: Any) -> None:
        given = vars(host).get("pids_given", Counter())[process.pid]
        counts["reused PID killed"] += given > 1 and action.agent.startswith("blue")
        original(action, state, host, process)

    return kill


def _port(original: Method, counts: Counter[str]) -> Method:
    def get_port(host: Any) -> int:
        before = getattr(host, "redrawn_ports", 0)
        port: int = original(host)
        counts["used port redrawn"] += getattr(host, "redrawn_ports", 0) - before
        return port

    return get_port


def _phishing(original: Method, counts: Counter[str]) -> Method:
    def execute(action: Any, state: Any) -> Any:
        before = list(_red_hosts(state))
        obs = original(action, state)
        hostname = state.ip_addresses[action.ip_address]
        if hostname not in before and hostname in _red_hosts(state):
            zones = state.hostname_subnet_map
            zones_before = {zones[host] for host in before}
            counts["phishing from outside the zone"] += zones[hostname] not in zones_before
        return obs

    return execute


def _red_hosts(state: Any) -> Iterator[str]:
    for agent, sessions in state.sessions.items():
        if agent.startswith("red"):
            yield from (session.hostname for session in sessions.values())
