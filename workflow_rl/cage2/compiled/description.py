"""Make the tables of a scenario. Refuse a scenario that compiled code cannot play."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.b_line_plan import PLAN
from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.tables import CAPACITIES, Capacity, Tables
from workflow_rl.cage2.scenario.actions import BLUE, DECOYS, RED, RED_ACTIONS
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import FACTS_OF_A_HOST, WORTH_IN_TENTHS, ScenarioError, prefix_bits

Row = Mapping[str, Any]


def _refused(place: str, reason: str) -> ScenarioError:
    return ScenarioError(f"{place}: {reason}; the simulator cyborg may play this scenario")


def family_of(scenarios: Sequence[Scenario]) -> tuple[Tables, ...]:
    """Return the tables of scenarios that the envs of one batch can play.

    All tables have the same capacity. The actions and the observation are the largest scenario's.
    If a scenario lacks a host, an action on this host does what Sleep does, and the host's bits are
    0. Raises ScenarioError."""
    n_hosts = max(len(scenario.hosts) for scenario in scenarios)
    capacities = {tables_of(scenario).capacity for scenario in scenarios}
    capacity = max(capacities, key=CAPACITIES.index)
    family = tuple(tables_of(scenario, n_hosts, capacity) for scenario in scenarios)
    kinds = {tuple(member.description["Agents"]["Blue"]["actions"]) for member in family}
    if len(kinds) > 1:
        raise ScenarioError("Agents.Blue.actions: they differ within a family of scenarios")
    return family


@functools.lru_cache(1024)
def tables_of(
    scenario: Scenario, n_hosts: int | None = None, capacity: Capacity | None = None
) -> Tables:
    """Return the tables of a scenario. n_hosts, capacity: see `family_of`. Raises ScenarioError."""
    description = scenario.description()
    agents, rows, subnets = (description[kind] for kind in ("Agents", "Hosts", "Subnets"))
    hosts, kinds = scenario.hosts, agents["Blue"]["actions"]
    starting = _starting_sessions(agents, hosts)
    n_exploits = tables.SQL_INJECTION if scenario.is_cage1 else tables.N_EXPLOITS
    of: dict[str, Any] = {
        "n_hosts": len(hosts),
        "n_subnets": len(subnets),
        "n_sessions": len(starting),
        "red_host": hosts.index(scenario.red_host),
        "is_cage1": scenario.is_cage1,
        "exploits": (1 << n_exploits) - 1,
        "groups_of_meander": [_named(hosts, "Op"), _named(hosts, "Ent")],
        "op_server": hosts.index("Op_Server0") if "Op_Server0" in hosts else tables.NONE,
    }
    of |= _subnets(subnets, hosts) | _hosts(rows) | _ot_services(rows)
    of |= _sessions(starting, len(hosts)) | _actions_of_blue(kinds, rows, n_hosts)
    of |= _reach(subnets, hosts, of) | _explored(rows, of) | _rewards(rows, of)
    of |= _b_line(rows, of) | _actions_of_red(scenario)
    ot_hosts = tuple(np.flatnonzero(of["ot_number"] != tables.NONE).tolist())
    capacity = capacity or _capacity(len(hosts), len(subnets), len(starting), len(ot_hosts), kinds)
    of |= _services(capacity) | _lists_of_ports(capacity, of)
    dtype = tables.tables_dtype(capacity)
    record = np.zeros(1, dtype)
    for name in dtype.names or ():
        table = np.asarray(of[name])
        # The table fills the first places of its field. The other places stay 0.
        within: Any = (0, *map(slice, table.shape))
        record[name][within] = table
    return Tables(scenario, description, starting, ot_hosts, capacity, of, record)


def _capacity(
    hosts: int, subnets: int, sessions: int, ot_hosts: int, blue_kinds: list[str]
) -> Capacity:
    # With both actions, a Linux host can have two services for which `_services` has one place.
    share_places = not {"Misinform", "DecoyVsftpd"} <= set(blue_kinds)
    services = CAPACITIES[0].services if share_places else tables.N_DECOYS
    needed = Capacity(hosts, subnets, sessions, services, ot_hosts)
    for capacity in CAPACITIES:
        if all(n <= room for n, room in zip(needed, capacity, strict=True)):
            return capacity
    # `scenario.checks` has already refused too many hosts, subnets, sessions and processes.
    most = CAPACITIES[-1].ot_hosts
    raise _refused("Hosts", f"at most {most} OT services are compiled, not {ot_hosts}")


# --- Subnets -------------------------------------------------------------------------------------


def _subnets(subnets: Row, hosts: tuple[str, ...]) -> dict[str, Any]:
    host_bits = [prefix_bits(subnet["Size"]) for subnet in subnets.values()]
    most_bits = max(host_bits)
    members = [[hosts.index(name) for name in subnet["Hosts"]] for subnet in subnets.values()]
    subnet_of = np.zeros(len(hosts), np.int64)
    for number, listed in enumerate(members):
        subnet_of[listed] = number
    return {
        "prefixes": [32 - bits for bits in host_bits],
        "n_possible_subnets": 2 ** (32 - tables.NETWORK.prefixlen - most_bits),
        "n_parts": [2 ** (most_bits - bits) for bits in host_bits],
        "n_addresses": [2**bits - 2 for bits in host_bits],
        "subnet_hosts": _padded(members),
        "n_subnet_hosts": np.array([len(listed) for listed in members]),
        "subnet_mask": np.array([_mask_of(listed) for listed in members]),
        "subnet": subnet_of,
        "subnets_by_host": np.array(list(dict.fromkeys(subnet_of.tolist()))),
    }


def _mask_of(numbers: Any) -> int:
    """Return the mask with the bits of these numbers, as a signed integer of 64 bits."""
    mask = sum(1 << int(number) for number in set(numbers))
    return mask - (1 << 64) if mask >> 63 else mask


def _padded(rows: list[list[int]]) -> NDArray[Any]:
    table = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


def _reach(subnets: Row, hosts: tuple[str, ...], of: Row) -> dict[str, Any]:
    """Follow `ConcreteAction.check_routable`, from the subnet of Red's host."""
    origin = tuple(subnets)[of["subnet"][of["red_host"]]]
    is_in_enterprise = "Enterprise" in hosts[of["red_host"]]
    reach = []
    for subnet in subnets.values():
        access = subnet["NACLs"].get(origin, subnet["NACLs"].get("all"))
        if access is None:
            reach.append(tables.SILENT)
        else:
            is_open = access["in"] == "all" or is_in_enterprise
            reach.append(tables.OPEN if is_open else tables.GUARDED)
    return {"reach": np.array(reach), "enterprise": _named(hosts, "Enterprise")}


# --- Hosts ---------------------------------------------------------------------------------------


def _connections(row: Row) -> list[dict[str, Any]]:
    of_processes = [process.get("Connections") or () for process in row["Processes"]]
    return list(itertools.chain.from_iterable(of_processes))


def _numbers(name: str, row: Row) -> dict[int, int]:
    """Return the number of each port that matters on a host, by port: see `tables`."""
    ports = {connection["local_port"] for connection in _connections(row)}
    others = sorted(ports - set(tables.PORTS))
    most = len(tables.OTHER_PORTS)
    if len(others) > most:
        place = f"Hosts.{name}.Processes"
        raise _refused(place, f"at most {most} ports besides those of exploits")
    numbers = {port: number for number, port in enumerate(tables.PORTS)}
    return numbers | dict(zip(others, tables.OTHER_PORTS, strict=False))


def _hosts(rows: Row) -> dict[str, Any]:
    listening = []
    bound = []
    vulnerability = []
    pids = []
    for host, (name, row) in enumerate(rows.items()):
        connections = _connections(row)
        if len(connections) > tables.MAX_LISTENING:
            raise _refused(f"Hosts.{name}.Processes", f"at most {tables.MAX_LISTENING} connections")
        numbers = _numbers(name, row)
        listening.append([numbers[connection["local_port"]] for connection in connections])
        addresses = {connection["local_address"] for connection in connections}
        for address in addresses - {"broadcast", "local"}:
            if IPv4Address(address) in tables.NETWORK:
                bound.append((host, address))
        vulnerability.append([_vulnerability(name, row, i) for i in range(tables.N_EXPLOITS)])
        # CybORG never draws larger PIDs, so the simulator need not avoid them.
        host_pids = [process["PID"] for process in row["Processes"]]
        pids.append([pid for pid in host_pids if pid < tables.N_PIDS])
    if len({address for _, address in bound}) > 1:
        raise _refused("Hosts", f"processes listen on more than one address of {tables.NETWORK}")
    # An address is stored as its distance from the first address of NETWORK.
    bound_host, distance = 0, -1
    if bound:
        bound_host, address = bound[0]
        distance = int(IPv4Address(address)) - int(tables.NETWORK[0])
    return {
        "bound_host": bound_host,
        "bound_address": distance,
        "listening": _padded(listening),
        "n_listening": np.array([len(row) for row in listening]),
        "listening_ports": np.array([_mask_of(row) for row in listening]),
        "vulnerability": np.array(vulnerability),
        # For each host, the mask of the exploits that fail even on a decoy.
        "decoys_fail": np.array([_is_patched(row) << tables.ETERNAL_BLUE for row in rows.values()]),
        "bruteforceable": np.array([_bruteforceable(*item) for item in rows.items()]),
        "pids": _padded(pids),
        "n_pids": np.array([len(row) for row in pids]),
    }


def _system(row: Row) -> str:
    """Follow `OperatingSystemType.parse_string`."""
    return str(row["System info"]["OSType"]).upper()


def _is_patched(row: Row) -> bool:
    """Return whether EternalBlue fails on the host."""
    return _system(row) != "WINDOWS" or "MS17-010" in row["System info"].get("Patches", ())


_SAME_TYPE = {"sshd": "ssh", "sshd.exe": "ssh", "http": "webserver", "https": "webserver"}


def _process_type(process: Row) -> str:
    """Follow `ProcessType.parse_string`, for the types that exploits attack."""
    stated = process.get("Process Type")
    name = (process["Process Name"] if stated is None else stated).lower()
    name = _SAME_TYPE.get(name, name)
    return "webserver" if name.replace(" ", "") == "webserver" else name


def _vulnerability(name: str, row: Row, exploit: int) -> int:
    """Return what `sim_exploit` finds: see `NOT_VULNERABLE`. CybORG tries only the first process
    that the exploit fits."""
    for process in row["Processes"]:
        ports = [connection["local_port"] for connection in process.get("Connections") or ()]
        is_attacked = tables.PORTS[exploit] in ports
        if _process_type(process) != tables.EXPLOITED_TYPES[exploit] or not is_attacked:
            continue
        place = f"Hosts.{name}.Processes.{process['Process Name']}"
        version = process.get("Process Version")
        if exploit == tables.HARAKA_RCE and str(version).lower() not in tables.OLD_VERSIONS:
            raise _refused(f"{place}.Process Version", "csle-cyborg fails at this version")
        if exploit == tables.SSH_BRUTE_FORCE:
            return tables.VULNERABLE
        if exploit == tables.ETERNAL_BLUE and _is_patched(row):
            return tables.PATCHED
        is_rfi = exploit in (tables.HTTP_RFI, tables.HTTPS_RFI)
        if is_rfi and "rfi" not in (process.get("Properties") or ()):
            return tables.PATCHED
        is_root = _is_superuser(process["Username"], row, place)
        return tables.VULNERABLE_AS_ROOT if is_root else tables.VULNERABLE
    return tables.NOT_VULNERABLE


def _is_superuser(user: str, row: Row, place: str) -> bool:
    """Return whether Red's session is privileged if Red exploits a process of this user."""
    superuser = tables.SUPERUSERS[_system(row)]
    if user in tables.PRIVILEGED_USERS and user != superuser:
        raise _refused(f"{place}.Username", f"{user} on a host where {superuser} is the superuser")
    return user == superuser


def _bruteforceable(name: str, row: Row) -> int:
    """Return what `SSHBruteForce` finds on a host that has SSH: see `NOT_VULNERABLE`."""
    for user in row.get("User Info") or ():
        if user.get("Bruteforceable"):
            is_root = _is_superuser(user["Username"], row, f"Hosts.{name}.User Info")
            return tables.VULNERABLE_AS_ROOT if is_root else tables.VULNERABLE
    return tables.NOT_VULNERABLE


def _ot_services(rows: Row) -> dict[str, Any]:
    numbers, pids = [], []
    n_services = 0
    for name, row in rows.items():
        services = row.get("Services") or {}
        processes = row["Processes"]
        running = [entry["PID"] for entry in processes if entry["Process Name"] == "OTService"]
        listed = [
            facts.get("PID")
            for service, facts in services.items()
            if service == "OTService" and facts.get("active")
        ]
        if len(services) != len(listed) or running != listed:
            raise _refused(
                f"Hosts.{name}.Services",
                "only an active OTService is compiled, with the PID of the process OTService",
            )
        numbers.append(n_services if listed else tables.NONE)
        pids.append(listed[0] if listed else 0)
        n_services += len(listed)
    return {"ot_number": np.array(numbers), "ot_pid": np.array(pids)}


def _lists_of_ports(capacity: Capacity, of: Row) -> dict[str, Any]:
    """Return where a host's ephemeral ports are listed: see `state`. Red's host has bits instead.

    A number in a list stands for a host and one port: N_EPHEMERAL times the host's rank, plus the
    port. In the smallest records, this number has 16 bits, which is enough for the ranks 0 to 5.
    So these records have two lists. The list from the left holds the first six hosts. The list from
    the right holds six further hosts, again with the ranks 0 to 5. Larger records have 32 bits and
    list all hosts from the left."""
    is_listed = np.arange(of["n_hosts"]) != of["red_host"]
    ranks = np.maximum(np.cumsum(is_listed) - 1, 0)
    if capacity.hosts > CAPACITIES[0].hosts:
        return {"port_side": np.zeros_like(ranks), "first_port": ranks * tables.N_EPHEMERAL}
    side, rank_on_side = np.divmod(ranks, 2**16 // tables.N_EPHEMERAL)
    return {"port_side": side, "first_port": rank_on_side * tables.N_EPHEMERAL}


# --- Sessions at the start, and rewards ----------------------------------------------------------


def _starting_sessions(agents: Row, hosts: tuple[str, ...]) -> tuple[tuple[str, int, str], ...]:
    """Return agent, host and user of each session. As in CybORG, child sessions come last."""
    starting = []
    for agent, row in agents.items():
        sessions = row["starting_sessions"]
        first = [session for session in sessions if session.get("parent") is None]
        children = [session for session in sessions if session.get("parent") is not None]
        for session in (*first, *children):
            starting.append((agent, hosts.index(session["hostname"]), session["username"]))
    return tuple(starting)


def _sessions(starting: Iterable[tuple[str, int, str]], n_hosts: int) -> dict[str, Any]:
    host_of_session = np.array([host for _, host, _ in starting])
    blue_users: list[list[str]] = [[] for _ in range(n_hosts)]
    for agent, host, user in starting:
        if agent == "Blue":
            blue_users[host].append(user)
    # Each host has a mask. Bit i says whether Blue's session i there runs as root or SYSTEM.
    is_privileged = []
    for users in blue_users:
        privileged = [i for i, user in enumerate(users) if user in tables.PRIVILEGED_USERS]
        is_privileged.append(_mask_of(privileged))
    # Slots are in the order of hosts. The second `argsort` gives the slot of each session.
    order = np.argsort(host_of_session, kind="stable")
    return {
        "starting_host": host_of_session,
        "starting_slot": np.argsort(order),
        "first_slot": np.searchsorted(host_of_session[order], np.arange(n_hosts + 1)),
        "n_blue_sessions": np.array([len(users) for users in blue_users]),
        "blue_is_privileged": np.array(is_privileged),
    }


def _rewards(rows: Row, of: Row) -> dict[str, Any]:
    worth = _worth("ConfidentialityValue", rows)
    availability = _worth("AvailabilityValue", rows)
    return {
        "worth_of_host": worth,
        "worth": [_mask_of(np.flatnonzero(worth == tenths)) for tenths in tables.WORTHS],
        "worth_of_ot_service": availability[of["ot_number"] != tables.NONE],
    }


def _worth(kind: str, rows: Row) -> NDArray[Any]:
    return np.array([WORTH_IN_TENTHS[row.get(kind, "Low")] for row in rows.values()])


# --- Blue ----------------------------------------------------------------------------------------


def _actions_of_blue(kinds: Iterable[str], rows: Row, n_hosts: int | None) -> dict[str, Any]:
    action_kinds, action_hosts = [], []
    for kind in kinds:
        n_targets = (n_hosts or len(rows)) if BLUE[kind].on_host else 1
        for host in range(n_targets):
            # An action on a host that the scenario lacks does what Sleep does.
            exists = host < len(rows)
            action_kinds.append(tables.KINDS.index(kind) if exists else tables.SLEEP)
            action_hosts.append(host if exists else 0)
    systems = [_system(row) for row in rows.values()]
    runs_on = []
    for decoy in DECOYS.values():
        runs_on.append([decoy.system in (None, system) for system in systems])
    return {
        "action_kind": np.array(action_kinds),
        "action_host": np.array(action_hosts),
        "decoy_runs_on": np.array(runs_on),
    }


def _services(capacity: Capacity) -> dict[str, Any]:
    """Return the place in a host's list of services for the service of each kind of decoy."""
    places = list(range(tables.N_DECOYS))
    if capacity.services < tables.N_DECOYS:
        # Femitter (Windows) shares a place with HarakaSMPT (Linux), and Smss with Vsftpd.
        places = [0, 1, 1, 2, 3, 4, 5, 2]
    idle = [places[list(DECOYS).index(name)] for name in ("DecoySmss", "DecoySvchost")]
    return {"service": np.array([*places, *idle])}


# --- Red -----------------------------------------------------------------------------------------


def _explored(rows: Row, of: Row) -> dict[str, Any]:
    """Return what a privileged session shows Red on each host: addresses, subnets, OT services."""
    hosts = tuple(rows)
    addresses = []
    subnets = []
    shows_ot_service = []
    for row in rows.values():
        info = {hosts.index(other): facts for other, facts in row.get("info", {}).items()}
        interfaces = {host: facts.get("Interfaces") for host, facts in info.items()}
        addresses.append(_mask_of(host for host, shown in interfaces.items() if shown))
        wholly_shown = [host for host, shown in interfaces.items() if shown == "All"]
        subnets.append(_mask_of(of["subnet"][host] for host in wholly_shown))
        with_services = [host for host, facts in info.items() if facts.get("Services")]
        shows_ot_service.append(any(of["ot_number"][host] != tables.NONE for host in with_services))
    return {
        "explored_addresses": np.array(addresses),
        "explored_subnets": np.array(subnets),
        "shows_ot_service": np.array(shows_ot_service),
    }


def _actions_of_red(scenario: Scenario) -> dict[str, Any]:
    """Return tables of the actions that a policy or program can choose as Red. `fact_needed` is the
    index, in Red's observation, of the fact that makes an action possible."""
    hosts, subnets = scenario.hosts, tuple(scenario.subnets)
    kinds = []
    targets = []
    needed = []
    for name in scenario.red_action_names:
        kind, _, target = name.partition(" ")
        kinds.append(RED_ACTIONS.index(kind))
        if target in hosts:
            host = hosts.index(target)
            fact = FACTS_OF_A_HOST.index(f"{RED[kind].needs} known")
            needed.append(len(subnets) + host * tables.N_FACTS_OF_A_HOST + fact)
            targets.append(host)
        else:
            subnet = subnets.index(target) if target else 0
            needed.append(subnet)
            targets.append(subnet)
    return {
        "n_red_actions": len(kinds),
        # The last two numbers tell whether Red's last action succeeded, and whether it failed.
        "red_obs_size": len(subnets) + tables.N_FACTS_OF_A_HOST * len(hosts) + 2,
        "red_action_kind": np.array(kinds),
        "red_action_target": np.array(targets),
        "fact_needed": np.array(needed),
    }


def _named(hosts: Iterable[str], part_of_name: str) -> int:
    return _mask_of(i for i, name in enumerate(hosts) if part_of_name in name)


def _b_line(rows: Row, of: Row) -> dict[str, Any]:
    """Return the targets of B_line's plan, see `b_line_plan`, for each first host.

    The host that B_line attacks first determines all later targets. The row of Red's own host holds
    the target before this attack: the subnet of Red's host."""
    hosts = tuple(rows)
    red_host = of["red_host"]
    members = [row[:n] for row, n in zip(of["subnet_hosts"], of["n_subnet_hosts"], strict=True)]
    user = of["subnet"][red_host]
    first = [host for host in members[user] if host != red_host]
    plans = np.zeros((len(hosts), len(PLAN)), np.int64)
    plans[red_host] = user
    for host in first:
        info = rows[hosts[host]].get("info", {})
        # CybORG shows Red the host itself first, then the other hosts in the order of hosts.
        explored = [name for name in (hosts[host], *hosts) if name in info]
        in_enterprise = [hosts.index(name) for name in explored if "Enterprise" in name]
        enterprise = in_enterprise[0] if in_enterprise else 0
        subnet = of["subnet"][enterprise]
        targets = {
            "user": user,
            "first": host,
            "enterprise": enterprise,
            "subnet": subnet,
            "third": members[subnet][2] if len(members[subnet]) > 2 else 0,
            "op_server": of["op_server"],
        }
        plans[host] = [targets[target] for _, target in PLAN]
    return {
        "plan_of_b_line": plans,
        "first_hosts": np.array(first, np.int64),
        "n_first_hosts": len(first),
    }


SCENARIO2 = tables_of(Scenario.scenario2())
"""The tables of CAGE Challenge 2's own scenario."""
