"""Compute what CybORG shows Red after Red's action, as a dictionary of plain values.

The input is the network right before Red acted. The functions repeat the action's random draws."""

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables as constants
from workflow_rl.cage2.compiled.cyborg_words import (
    added_slots,
    address_of,
    ephemeral_ports,
    processes_on,
    reds_first_pid,
    subnet_of,
)
from workflow_rl.cage2.compiled.episode_random import EpisodeRandom
from workflow_rl.cage2.compiled.red_steps import NOTHING
from workflow_rl.cage2.compiled.state import KIND, PRIVILEGED, SHELL
from workflow_rl.cage2.compiled.tables import NONE, PORTS, Tables

Shown = dict[str, Any]
SYSTEM_FACTS = ("OSType", "OSDistribution", "OSVersion", "OSKernelVersion")
USER_FACTS = ("Username", "UID", "Password")
REVERSE = "REVERSE_SESSION"
HANDLER_PORT = 4444
"""The port of Red's host to which sessions connect back."""
SUCCESS = {constants.FALSE: False, constants.TRUE: True, constants.UNKNOWN: None}


def observation_of(before: Any, after: Any, notes: Any, tables: Tables) -> Shown:
    """Return what CybORG shows Red now.

    before: the network, a record of `state.STATE`, right before Red's last action. after: the
    network now. notes: see `red_steps.notes_for`, right after Red's last action."""
    action = int(notes["action"])
    if action == NOTHING:
        return {"success": None} | _first(tables, after)
    kind = int(tables.of["red_action_kind"][action])
    target = int(tables.of["red_action_target"][action])
    succeeded = SUCCESS[int(after["red_success"])]
    shown: Shown = {"success": succeeded}
    if kind == constants.EXPLOIT:
        return shown | _exploited(tables, before, after, target, int(notes["n_sessions"]) - 1)
    if not succeeded or after["red_kind"] != kind:
        return shown
    if kind == constants.DISCOVER_SYSTEMS:
        subnet = subnet_of(before, target, tables)
        members = tables.of["subnet_hosts"][target, : tables.of["n_subnet_hosts"][target]]
        for host in members.tolist():
            address = address_of(before, host, tables)
            shown[address] = {"Interface": [{"IP Address": address, "Subnet": subnet}]}
    elif kind == constants.DISCOVER_SERVICES and after["event_host"] == target:
        address = address_of(before, target, tables)
        processes: list[Shown] = []
        for _pid, _is_privileged, ports in processes_on(before, target, tables):
            for port in ports:
                connection = {"local_port": port, "local_address": address}
                processes.append({"Connections": [connection]})
        shown[address] = {"Processes": processes, "Interface": [{"IP Address": address}]}
    elif kind == constants.ESCALATE:
        shown |= _explored(tables, before, target, _escalated(tables, before, target, notes))
    return shown


def addresses_of(state: Any, tables: Tables) -> tuple[str, ...]:
    """Return all hosts, in the order in which Red's action space lists their addresses."""
    first = int(state["first_address"])
    others = [name for host, name in enumerate(tables.hosts) if host != first]
    bound = int(tables.of["bound_host"])
    return (*others[:bound], tables.hosts[first], *others[bound:])


def _first(tables: Tables, state: Any) -> Shown:
    """Return what CybORG shows Red when an episode begins."""
    host = int(tables.of["red_host"])
    name = tables.hosts[host]
    shown = _session_at_first(tables, state)
    stated = tables.description["Hosts"][name]["System info"]
    system = {"Hostname": name} | {fact: stated[fact] for fact in SYSTEM_FACTS if fact in stated}
    if patches := stated.get("Patches"):
        system["os_patches"] = [patch.replace("-", "_") for patch in patches]
    system["Architecture"] = stated["Architecture"]
    return {
        name: {"Interface": [_interface(tables, state, host)]} | shown | {"System info": system}
    }


def _session_at_first(tables: Tables, state: Any) -> Shown:
    pid = reds_first_pid(state, tables)
    user = next(user for agent, _, user in tables.starting if agent == "Red")
    return _with_process(0, pid, "RED_ABSTRACT_SESSION", user)


def _with_process(ident: int, pid: int, kind: str, user: str) -> Shown:
    session = {"Username": user, "ID": ident, "Timeout": 0, "PID": pid, "Type": kind}
    return {
        "Sessions": [session | {"Agent": "Red"}],
        "Processes": [{"PID": pid, "Username": user}],
    }


def _interface(tables: Tables, state: Any, host: int) -> Shown:
    subnet = subnet_of(state, int(tables.of["subnet"][host]), tables)
    return {
        "Interface Name": "eth0",
        "IP Address": address_of(state, host, tables),
        "Subnet": subnet,
    }


def _escalated(tables: Tables, before: Any, host: int, notes: Any) -> Shown:
    """Return the session with which Red is root or SYSTEM after an escalation."""
    if host == tables.of["red_host"]:
        return _session_at_first(tables, before)
    system = tables.description["Hosts"][tables.hosts[host]]["System info"]
    user = "SYSTEM" if system["OSType"] == "WINDOWS" else "root"
    rows = [(slot, before["processes"][slot]) for slot in added_slots(before, host)]
    sessions = [(slot, row) for slot, row in rows if (row["kind"] & KIND) >= SHELL]
    for slot, row in sessions:
        if row["kind"] & PRIVILEGED:
            ident, pid = int(notes["ident"][slot]), int(row["pid"])
            return _with_process(ident, pid, _type_of(row), user)
    # Repeat the draw of `privilege_escalate`.
    slot, row = EpisodeRandom(np.array([before]), 0).choice(sessions)
    session = {"Username": user, "ID": int(notes["ident"][slot]), "Type": _type_of(row)}
    return {"Sessions": [session | {"Agent": "Red"}]}


def _type_of(process: Any) -> str:
    return "RED_REVERSE_SHELL" if (process["kind"] & KIND) == SHELL else "SSH"


def _explored(tables: Tables, state: Any, host: int, session: Shown) -> Shown:
    """Return what `ExploreHost` shows, together with the session on the explored host."""
    shown: Shown = {tables.hosts[host]: session}
    info = tables.description["Hosts"][tables.hosts[host]].get("info", {})
    for number, name in enumerate(tables.hosts):
        if name not in info:
            continue
        facts = info[name]
        entry = shown.setdefault(name, {})
        ot_service = int(tables.of["ot_number"][number])
        services = facts.get("Services") or ()
        if ot_service == NONE:
            services = ()
        for service in services:
            is_listed = state["ot_listed_with_pid"][ot_service]
            pid = {"PID": int(tables.of["ot_pid"][number])} if is_listed else {}
            entry.setdefault("Processes", []).append(pid | {"Service Name": service})
        if facts.get("Interfaces"):
            interface = _interface(tables, state, number)
            if facts["Interfaces"] != "All":
                interface = {"IP Address": interface["IP Address"]}
            entry["Interface"] = [interface]
    return shown


def _exploited(tables: Tables, before: Any, after: Any, host: int, ident: int) -> Shown:
    """Return what `ExploitRemoteService` shows. ident: the number of a session that began."""
    ports = int(after["event_ports"]) & ((1 << constants.N_EXPLOITS) - 1)
    if ports == 0:
        return {}
    # Red attacks one port in a step. An exploit and its port have the same number.
    exploit = ports.bit_length() - 1
    is_ssh = exploit == constants.SSH_BRUTE_FORCE
    succeeded = after["red_success"] == constants.TRUE
    kind = constants.EXPLOITED_TYPES[exploit].upper()
    address = address_of(before, host, tables)
    red_address = address_of(before, tables.of["red_host"], tables)
    connection = {"local_port": PORTS[exploit], "local_address": address, "Status": "OPEN"}
    shown: Shown = {}
    if not is_ssh and not succeeded:
        shown["1"] = {"Interface": [{"IP Address": address}]}
    if is_ssh or not succeeded:
        _add_process(shown, address, connection, kind)
    if not succeeded:
        return shown
    row = tables.description["Hosts"][tables.hosts[host]]
    session: Shown = {"ID": ident, "Type": "SSH" if is_ssh else "RED_REVERSE_SHELL", "Agent": "Red"}
    port = _port_of_session(tables, before, host, is_ssh)
    if is_ssh:
        at_red, at_host = (port, red_address), (PORTS[constants.SSH_BRUTE_FORCE], address)
        _add_process(shown, red_address, _connected(at_red, at_host), "")
        _add_process(shown, address, _connected(at_host, at_red), "SSH")
    else:
        at_red, at_host = (HANDLER_PORT, red_address), (port, address)
        _add_process(shown, red_address, _connected(at_red, at_host), f"{REVERSE}_HANDLER")
        _add_process(shown, address, _connected(at_host, at_red), REVERSE)
        _add_process(shown, address, connection, kind)
    entry = shown[address]
    entry["Sessions"] = [session]
    if is_ssh:
        user = next(user for user in row["User Info"] if user.get("Bruteforceable"))
        stated = {fact: user[fact] for fact in USER_FACTS if user.get(fact) is not None}
        entry["Sessions"] = [{"Username": user["Username"]} | session]
        entry["User Info"] = [stated]
    entry["System info"] = {"Hostname": tables.hosts[host], "OSType": row["System info"]["OSType"]}
    return shown


def _add_process(shown: Shown, address: str, connection: Shown, kind: str) -> None:
    entry = shown.setdefault(address, {"Processes": [], "Interface": [{"IP Address": address}]})
    process: Shown = {"Connections": [connection]}
    if kind:
        process["Process Type"] = kind
    entry["Processes"].append(process)


def _connected(local: tuple[int, str], remote: tuple[int, str]) -> Shown:
    return {
        "local_port": local[0],
        "remote_port": remote[0],
        "local_address": local[1],
        "remote_address": remote[1],
    }


def _port_of_session(tables: Tables, before: Any, host: int, is_ssh: bool) -> int:
    """Return the port of a new session. Repeat all draws of the exploit that began the session."""
    draws = EpisodeRandom(np.array([before]), 0)
    in_use: dict[int, set[int]] = {}

    def draw_port(on_host: int) -> int:
        used = in_use.setdefault(on_host, set(ephemeral_ports(before, on_host, tables)))
        drawn = constants.FIRST_EPHEMERAL + draws.randrange(constants.N_EPHEMERAL)
        if drawn in used:  # As `Host.get_ephemeral_port`, draw only one more time.
            drawn = constants.FIRST_EPHEMERAL + draws.randrange(constants.N_EPHEMERAL)
        used.add(drawn)
        return drawn

    options = int(before["known_ports"][host])
    if not (options & constants.WEB_PORTS):
        options &= ~(1 << constants.SQL_INJECTION)
    if options.bit_count() > 1:  # These are the two draws of `choose_exploit`.
        draws.random()
        draws.random()
    if not is_ssh:
        draw_port(host)  # The port of the exploit's connection, which comes before the session's.
        return draw_port(host)
    for _ in range(constants.WORDS_OF_BRUTE_FORCE):
        draw_port(tables.of["red_host"])
    pids = {0} | {pid for pid, *_ in processes_on(before, host, tables)}
    while draws.randrange(constants.N_PIDS) in pids:
        pass
    return draw_port(host)
