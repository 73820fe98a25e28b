"""The description of a scenario, read into tables. What cannot be compiled is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2 import scenario2
from workflow_rl.cage2.compiled.tables import (
    ALL_PORTS,
    CAPACITIES,
    DECOYS,
    DISCOVER_SERVICES,
    ETERNAL_BLUE,
    EXPLOIT,
    EXPLOITED_TYPES,
    GUARDED,
    HARAKA_RCE,
    HTTP_RFI,
    HTTPS_RFI,
    KINDS,
    MAX_LISTENING,
    MAX_PROCESSES,
    N_DECOYS,
    N_EPHEMERAL,
    N_EXPLOITS,
    N_FACTS_OF_A_HOST,
    N_PIDS,
    NETWORK,
    NONE,
    NOT_VULNERABLE,
    OLD_VERSIONS,
    OPEN,
    OTHER_PORTS,
    PATCHED,
    PORTS,
    PRIVILEGED_USERS,
    SILENT,
    SSH_BRUTE_FORCE,
    SUPERUSERS,
    VULNERABLE,
    VULNERABLE_AS_ROOT,
    WITHOUT_HOST,
    WORTH_IN_TENTHS,
    Capacity,
    Tables,
    tables_dtype,
)
from workflow_rl.errors import UserError

Starting = tuple[tuple[str, int, str], ...]


class NotCompiled(UserError):
    """The compiled simulator does not play a scenario. The message names the place."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}; the simulator cyborg may play this scenario")


def tables_of(description: Mapping[str, Any]) -> Tables:
    """Return the tables of a description like `scenario2.scenario2`'s. Raises NotCompiled."""
    agents, rows, subnets = (description[kind] for kind in ("Agents", "Hosts", "Subnets"))
    if list(agents) not in (["Blue", "Red"], ["Blue", "Green", "Red"]):
        raise NotCompiled("Agents", "they have to be Blue, Green and Red, in this order")
    if "Green" in agents and agents["Green"].get("agent_type") != "SleepAgent":
        raise NotCompiled("Agents.Green.agent_type", "Green has to be a SleepAgent")
    blue, red = agents["Blue"], agents["Red"]
    hosts, names, kinds = tuple(rows), tuple(subnets), blue["actions"]
    starting = _starting(agents, hosts)
    _check_what_blue_knows(blue, hosts, names)
    of: dict[str, Any] = {
        "n_hosts": len(hosts),
        "n_subnets": len(names),
        "n_sessions": len(starting),
        # The subnets whose interfaces Red is shown.
        "allowed": {i for i, name in enumerate(names) if name in red.get("AllowedSubnets", ())},
        "groups_of_meander": [_named(hosts, "Op"), _named(hosts, "Ent")],
        "op_server": hosts.index("Op_Server0") if "Op_Server0" in hosts else NONE,
    }
    of |= _subnets(subnets, hosts) | _hosts(rows) | _ot_services(rows)
    of |= _sessions(blue, starting, hosts) | _actions_of_blue(kinds, rows)
    of |= _red_at_first(red, starting, hosts, of)
    of |= _reach(subnets, rows, of) | _explored(rows, of) | _rewards(blue, rows, starting, of)
    of |= _b_line(rows, of)
    ot_hosts = tuple(np.flatnonzero(of["ot_number"] != NONE).tolist())
    red_names, actions_of_red = _actions_of_red(hosts, names, ot_hosts)
    capacity = _capacity(len(hosts), len(names), len(starting), len(ot_hosts), kinds)
    of |= actions_of_red | _services(capacity) | _lists_of_ports(capacity, of)
    dtype = tables_dtype(capacity)
    record = np.zeros(1, dtype)
    for name in dtype.names or ():
        table = np.asarray(of[name])
        record[name][(0, *map(slice, table.shape))] = table
    return Tables(
        description=description,
        hosts=hosts,
        subnets=names,
        action_names=tuple(
            name
            for kind in kinds
            for name in ((kind,) if kind in WITHOUT_HOST else (f"{kind} {host}" for host in hosts))
        ),
        red_action_names=red_names,
        prefixes=of["prefixes"],
        starting=starting,
        ot_hosts=ot_hosts,
        no_b_line=_no_b_line(red, rows, of),
        capacity=capacity,
        of=of,
        record=record,
    )


def _capacity(
    hosts: int, subnets: int, sessions: int, ot_hosts: int, blue_kinds: list[str]
) -> Capacity:
    # On Linux, these two actions set up services that otherwise share a place.
    services = 8 if {"Misinform", "DecoyVsftpd"} <= set(blue_kinds) else 6
    needed = Capacity(hosts, subnets, sessions, services, ot_hosts)
    for capacity in CAPACITIES:
        if all(n <= room for n, room in zip(needed, capacity, strict=True)):
            return capacity
    most = CAPACITIES[-1]
    raise NotCompiled(
        "Hosts",
        f"at most {most.hosts} hosts, {most.subnets} subnets, {most.sessions} sessions at the "
        f"start and {most.ot_hosts} OT services are played, not {hosts}, {subnets}, {sessions} "
        f"and {ot_hosts}",
    )


# --- Subnets -------------------------------------------------------------------------------------


def _subnets(subnets: Mapping[str, Any], hosts: tuple[str, ...]) -> dict[str, Any]:
    sizes = [max(int(np.log2(subnet["Size"] + 5)), 4) for subnet in subnets.values()]
    members = [[hosts.index(name) for name in subnet["Hosts"]] for subnet in subnets.values()]
    for name, bits, listed in zip(subnets, sizes, members, strict=True):
        if not 0 < len(listed) <= (room := 2**bits - 2):
            raise NotCompiled(
                f"Subnets.{name}.Size", f"it has {len(listed)} hosts for {room} addresses"
            )
        if bits > 7:
            raise NotCompiled(f"Subnets.{name}.Size", "at most 250 hosts are played")
    if sorted(itertools.chain(*members)) != list(range(len(hosts))):
        raise NotCompiled("Subnets", "each host has to be in one subnet")
    subnet_of = np.array(
        [next(i for i, m in enumerate(members) if h in m) for h in range(len(hosts))]
    )
    return {
        "prefixes": tuple(32 - bits for bits in sizes),
        "n_possible_subnets": 2 ** (16 - max(sizes)),
        "n_parts": [2 ** (max(sizes) - bits) for bits in sizes],
        "n_addresses": [2**bits - 2 for bits in sizes],
        "subnet_hosts": _padded(members),
        "n_subnet_hosts": np.array([len(listed) for listed in members]),
        "subnet_mask": np.array([_mask_of(listed) for listed in members]),
        "subnet": subnet_of,
        "subnets_by_host": np.array(list(dict.fromkeys(subnet_of.tolist()))),
    }


def _mask_of(numbers: Any) -> int:
    """Return the mask of these bits, as a signed number of 64."""
    mask = sum(1 << int(number) for number in set(numbers))
    return mask - (1 << 64) if mask >> 63 else mask


def _padded(rows: list[list[int]]) -> NDArray[Any]:
    table = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


def _reach(
    subnets: Mapping[str, Any], rows: Mapping[str, Any], of: Mapping[str, Any]
) -> dict[str, Any]:
    """`ConcreteAction.check_routable`, from the subnet of Red's host."""
    names, hosts = tuple(subnets), tuple(rows)
    origin = names[of["subnet"][of["red_host"]]]
    enterprise = _named(hosts, "Enterprise")
    reach, ports = [], []
    for name, subnet in subnets.items():
        nacls, place = subnet.get("NACLs", {}), f"Subnets.{name}.NACLs"
        source = origin if origin in nacls else "all" if "all" in nacls else None
        rule = nacls[source]["in"] if source else []
        is_guarded = source == origin and isinstance(rule, str) and "None" in rule
        if isinstance(rule, str) and "all" not in rule and not is_guarded:
            raise NotCompiled(f"{place}.{source}.in", f"{rule!r} is no rule that csle-cyborg reads")
        if is_guarded and "all" not in rule and not enterprise >> of["red_host"] & 1:
            reach.append(GUARDED)
        else:
            reach.append(OPEN if source else SILENT)
        ports.append(None if isinstance(rule, str) else _ports_of(rule, f"{place}.{source}.in"))
    let_in = [
        ALL_PORTS
        if allowed is None
        else _mask_of(n for p, n in _numbers(name, rows[name]).items() if p in allowed)
        for name, allowed in ((host, ports[of["subnet"][i]]) for i, host in enumerate(hosts))
    ]
    for i in range(len(hosts)):
        listed = [
            port for port in of["listening"][i, : of["n_listening"][i]] if let_in[i] >> port & 1
        ]
        of["listening"][i, : len(listed)], of["n_listening"][i] = listed, len(listed)
    return {"reach": np.array(reach), "let_in": let_in, "enterprise": enterprise}


def _ports_of(rules: list[dict[str, Any]], place: str) -> set[int]:
    if not all(isinstance(rule.get("PortRange"), list) for rule in rules):
        raise NotCompiled(place, "csle-cyborg fails at a PortRange that is not a list of two ports")
    return {port for rule in rules for port in range(*rule["PortRange"])}


# --- Hosts ---------------------------------------------------------------------------------------


def _connections(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [c for process in row["Processes"] for c in process.get("Connections") or ()]


def _numbers(name: str, row: Mapping[str, Any]) -> dict[int, int]:
    """Return the number of each port of a host."""
    others = sorted({c["local_port"] for c in _connections(row)} - set(PORTS))
    if len(others) > len(OTHER_PORTS):
        raise NotCompiled(
            f"Hosts.{name}.Processes", f"at most {len(OTHER_PORTS)} ports besides those of exploits"
        )
    numbers = {port: number for number, port in enumerate(PORTS)}
    return numbers | dict(zip(others, OTHER_PORTS, strict=False))


def _hosts(rows: Mapping[str, Any]) -> dict[str, Any]:
    listening, bound = [], []
    for host, (name, row) in enumerate(rows.items()):
        if _system(row) not in SUPERUSERS:
            raise NotCompiled(f"Hosts.{name}.System info.OSType", "it has to be Linux or Windows")
        if len(_connections(row)) > MAX_LISTENING or len(row["Processes"]) > MAX_PROCESSES:
            raise NotCompiled(
                f"Hosts.{name}.Processes",
                f"at most {MAX_PROCESSES}, with {MAX_LISTENING} connections",
            )
        numbers = _numbers(name, row)
        listening.append([numbers[c["local_port"]] for c in _connections(row)])
        addresses = [c["local_address"] for c in _connections(row)]
        addresses = [a for a in addresses if a not in ("broadcast", "local")]
        bound += [(host, address) for address in addresses if IPv4Address(address) in NETWORK]
    if len({address for _, address in bound}) > 1:
        raise NotCompiled("Hosts", f"processes listen on more than one address of {NETWORK}")
    bound_host, address = bound[0] if bound else (0, None)
    pids = [[p["PID"] for p in row["Processes"] if p["PID"] < N_PIDS] for row in rows.values()]
    return {
        "bound_host": bound_host,
        "bound_address": int(IPv4Address(address)) - int(NETWORK[0]) if address else -1,
        "listening": _padded(listening),
        "n_listening": np.array([len(row) for row in listening]),
        "listening_ports": np.array([_mask_of(row) for row in listening]),
        "vulnerability": np.array(
            [[_vulnerability(*item, e) for e in range(N_EXPLOITS)] for item in rows.items()]
        ),
        "decoys_fail": np.array([_is_patched(row) << ETERNAL_BLUE for row in rows.values()]),
        "bruteforceable": np.array([_bruteforceable(*item) for item in rows.items()]),
        "pids": _padded(pids),
        "n_pids": np.array([len(row) for row in pids]),
    }


def _system(row: Mapping[str, Any]) -> str:
    """`OperatingSystemType.parse_string`."""
    system = row["System info"]["OSType"].upper()
    return "WINDOWS" if "WINDOWS" in system else system


def _is_patched(row: Mapping[str, Any]) -> bool:
    """Return whether EternalBlue fails on the host."""
    return _system(row) != "WINDOWS" or "MS17-010" in row["System info"].get("Patches", ())


def _process_type(process: Mapping[str, Any]) -> str:
    """`ProcessType.parse_string`, for the types that exploits look for."""
    stated = process.get("Process Type")
    name = (process["Process Name"] if stated is None else stated).lower()
    name = {"sshd": "ssh", "sshd.exe": "ssh", "http": "webserver", "https": "webserver"}.get(
        name, name
    )
    return "webserver" if name.replace(" ", "") == "webserver" else name


def _vulnerability(name: str, row: Mapping[str, Any], exploit: int) -> int:
    """Return the session that `sim_exploit` gets from the first process that it finds, if any."""
    for process in row["Processes"]:
        ports = [c["local_port"] for c in process.get("Connections") or ()]
        if _process_type(process) != EXPLOITED_TYPES[exploit] or PORTS[exploit] not in ports:
            continue
        place = f"Hosts.{name}.Processes.{process['Process Name']}"
        version = process.get("Process Version")
        if exploit == HARAKA_RCE and str(version).lower() not in OLD_VERSIONS:
            raise NotCompiled(f"{place}.Process Version", "csle-cyborg fails at this version")
        if exploit == SSH_BRUTE_FORCE:
            return VULNERABLE
        if (exploit == ETERNAL_BLUE and _is_patched(row)) or (
            exploit in (HTTP_RFI, HTTPS_RFI) and "rfi" not in (process.get("Properties") or ())
        ):
            return PATCHED
        return VULNERABLE_AS_ROOT if _is_superuser(process["Username"], row, place) else VULNERABLE
    return NOT_VULNERABLE


def _is_superuser(user: str, row: Mapping[str, Any], place: str) -> bool:
    """Return whether Red's sessions of this user are privileged."""
    superuser = SUPERUSERS[_system(row)]
    if user in PRIVILEGED_USERS and user != superuser:
        raise NotCompiled(
            f"{place}.Username", f"{user} on a host where {superuser} is the superuser"
        )
    return user == superuser


def _bruteforceable(name: str, row: Mapping[str, Any]) -> int:
    """Return the session that `SSHBruteForce` gets, where it finds SSH."""
    for user in row.get("User Info") or ():
        if user.get("Bruteforceable"):
            is_root = _is_superuser(user["Username"], row, f"Hosts.{name}.User Info")
            return VULNERABLE_AS_ROOT if is_root else VULNERABLE
    return NOT_VULNERABLE


def _ot_services(rows: Mapping[str, Any]) -> dict[str, Any]:
    numbers, pids, count = [], [], itertools.count()
    for name, row in rows.items():
        services = row.get("Services") or {}
        running = [p["PID"] for p in row["Processes"] if p["Process Name"] == "OTService"]
        listed = [
            facts.get("PID")
            for service, facts in services.items()
            if service == "OTService" and facts.get("active")
        ]
        if len(services) != len(listed) or running != listed:
            raise NotCompiled(
                f"Hosts.{name}.Services",
                "only an active OTService is compiled, with the PID of the process OTService",
            )
        numbers.append(next(count) if listed else NONE)
        pids.append(listed[0] if listed else 0)
    return {"ot_number": np.array(numbers), "ot_pid": np.array(pids)}


def _lists_of_ports(capacity: Capacity, of: Mapping[str, Any]) -> dict[str, Any]:
    """Say where a host's ephemeral ports are listed: see `state`. Red's host has bits instead.

    In 16 bits six hosts are listed from the left of `ports` and six from the right, so that a port
    and the host that uses it fit.
    """
    ranks = np.cumsum(np.arange(of["n_hosts"]) != of["red_host"]) - 1
    ranks = np.maximum(ranks, 0)
    if capacity.hosts > CAPACITIES[0].hosts:
        return {"port_side": 0 * ranks, "first_port": ranks * N_EPHEMERAL}
    return {"port_side": np.minimum(ranks // 6, 1), "first_port": ranks % 6 * N_EPHEMERAL}


# --- Sessions at the start, and rewards ----------------------------------------------------------


def _starting(agents: Mapping[str, Any], hosts: tuple[str, ...]) -> Starting:
    """Return agent, host and user of each session, in the order in which `State` starts them."""
    for agent, row in agents.items():
        kinds = [session["type"] for session in row["starting_sessions"]]
        allowed = {
            "Blue": ["VelociraptorServer", "VelociraptorClient"],
            "Red": ["RedAbstractSession"],
        }
        for kind in kinds:
            if kind not in allowed.get(agent, ["green_session"]):
                raise NotCompiled(f"Agents.{agent}.starting_sessions", f"a session of type {kind}")
        if agent != "Green" and kinds.count(allowed[agent][0]) != 1:
            raise NotCompiled(
                f"Agents.{agent}.starting_sessions", f"one {allowed[agent][0]} is needed"
            )
    return tuple(
        (agent, hosts.index(session["hostname"]), session["username"])
        for agent, row in agents.items()
        for is_child in (False, True)
        for session in row["starting_sessions"]
        if (session.get("parent") is not None) == is_child
    )


def _sessions(
    blue: Mapping[str, Any], starting: Starting, hosts: tuple[str, ...]
) -> dict[str, Any]:
    at = np.array([host for _, host, _ in starting])
    users = [
        [u for agent, h, u in starting if (agent, h) == ("Blue", i)] for i in range(len(hosts))
    ]
    place = "Agents.Blue.starting_sessions"
    if max(map(len, users)) > 15:
        raise NotCompiled(place, "at most 15 of a host")
    rows = blue["starting_sessions"]
    server = next(row for row in rows if row["type"] == "VelociraptorServer")
    if next(row for row in rows if row.get("parent") is None) is not server:
        raise NotCompiled(
            place, "the VelociraptorServer has to be the first session without parent"
        )
    children = [row["hostname"] for row in rows if row.get("parent") == server.get("name")]
    watched = children if "NetworkConnections" in server.get("artifacts", ()) else []
    return {
        "starting_host": at,
        "starting_slot": np.argsort(np.argsort(at, kind="stable")),
        "first_slot": np.searchsorted(np.sort(at), np.arange(len(hosts) + 1)),
        "n_blue_sessions": np.array(list(map(len, users))),
        # Whether Blue's processes on a host run as root or SYSTEM: a bit for each session.
        "blue_is_privileged": np.array(
            [_mask_of(i for i, user in enumerate(row) if user in PRIVILEGED_USERS) for row in users]
        ),
        "monitored": _mask_of(hosts.index(name) for name in watched),
    }


def _rewards(
    blue: Mapping[str, Any],
    rows: Mapping[str, Any],
    starting: Starting,
    of: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what costs Blue tenths. `HybridImpactPwn` pays Blue for its own sessions."""
    kind, place = blue.get("reward_calculator_type"), "Agents.Blue.reward_calculator_type"
    is_hybrid = kind == "HybridAvailabilityConfidentiality"
    if kind not in (None, "None", "HybridAvailabilityConfidentiality", "HybridImpactPwn"):
        raise NotCompiled(place, f"{kind} is not compiled")
    if is_hybrid and blue.get("adversary") != "Red":
        raise NotCompiled("Agents.Blue.adversary", "it has to be Red")
    values = []
    for sort in ("ConfidentialityValue", "AvailabilityValue"):
        stated = {name: row.get(sort, "Low") for name, row in rows.items()}
        for name, value in stated.items():
            if value not in WORTH_IN_TENTHS:
                raise NotCompiled(
                    f"Hosts.{name}.{sort}", f"{value!r} is none of {', '.join(WORTH_IN_TENTHS)}"
                )
        values.append(np.array([WORTH_IN_TENTHS[value] for value in stated.values()]))
    worth, availability = values
    systems = [SUPERUSERS[_system(row)] for row in rows.values()]
    owned = {
        agent: {h for a, h, user in starting if a == agent and user == systems[h]}
        for agent in ("Blue", "Red")
    }
    ot_worth = availability[of["ot_number"] != NONE]
    return {
        "worth": worth * is_hybrid,
        "owned_at_start": _mask_of(owned["Red"]),
        "worth_of_ot_service": ot_worth * (is_hybrid - (kind == "HybridImpactPwn")),
        "reward_at_start": sum(worth[list(owned["Blue"])]) * (kind == "HybridImpactPwn"),
    }


# --- Blue ----------------------------------------------------------------------------------------


def _check_what_blue_knows(
    blue: Mapping[str, Any], hosts: tuple[str, ...], subnets: tuple[str, ...]
) -> None:
    """Blue's table has a row of each host that Blue knows at the start."""
    known, place = blue.get("INT", {}).get("Hosts", {}), "Agents.Blue.INT.Hosts"
    for name in hosts:
        facts = known.get(name, {})
        if facts.get("Interfaces") != "All" or "System info" not in facts:
            raise NotCompiled(f"{place}.{name}", "Blue has to know its Interfaces and System info")
        if unknown := set(facts) - {"Interfaces", "System info", "User info", "Sessions"}:
            raise NotCompiled(f"{place}.{name}", f"{unknown.pop()} is not compiled")
    if set(subnets) - set(blue.get("AllowedSubnets", ())):
        raise NotCompiled("Agents.Blue.AllowedSubnets", "all subnets are needed")


def _actions_of_blue(kinds: list[str], rows: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise NotCompiled("Agents.Blue.actions", f"{unknown[0]} is not compiled")
    numbered = [
        (KINDS.index(kind), host)
        for kind in kinds
        for host in ((0,) if kind in WITHOUT_HOST else range(len(rows)))
    ]
    runs_on = [
        [row[2] in (None, _system(host)) for host in rows.values()] for row in DECOYS.values()
    ]
    return {
        "action_kind": np.array([kind for kind, _ in numbered]),
        "action_host": np.array([host for _, host in numbered]),
        "decoy_runs_on": np.array(runs_on),
    }


def _services(capacity: Capacity) -> dict[str, Any]:
    """Say where a host lists the service of each kind of decoy. With little room, a decoy for
    Windows and one for Linux share a place."""
    places = list(range(N_DECOYS)) if capacity.services == N_DECOYS else [0, 1, 1, 2, 3, 4, 5, 2]
    idle = [places[list(DECOYS).index(name)] for name in ("DecoySmss", "DecoySvchost")]
    return {"service": np.array([*places, *idle])}


# --- Red -----------------------------------------------------------------------------------------


def _red_at_first(
    red: Mapping[str, Any], starting: Starting, hosts: tuple[str, ...], of: Mapping[str, Any]
) -> dict[str, Any]:
    ((host, user),) = [(host, user) for agent, host, user in starting if agent == "Red"]
    if user not in PRIVILEGED_USERS:
        raise NotCompiled("Agents.Red.starting_sessions", "its user has to be root or SYSTEM")
    facts = red.get("INT", {}).get("Hosts", {})
    addresses, subnets, names = _told("Agents.Red.INT.Hosts", facts, hosts, of)
    return {
        "red_host": host,
        "known_addresses": addresses,
        "known_subnets": subnets,
        "known_hostnames": names,
        "red_kinds": _mask_of(
            i for i, kind in enumerate(scenario2.RED_ACTIONS) if kind in red["actions"]
        ),
    }


def _told(
    place: str,
    facts: Mapping[str, Mapping[str, Any]],
    hosts: tuple[str, ...],
    of: Mapping[str, Any],
) -> tuple[int, int, int]:
    """Return the masks of the addresses, the subnets and the hostnames that facts tell Red."""
    addresses, subnets, names = set(), set(), set()
    for name, row in facts.items():
        host = hosts.index(name)
        subnet, interfaces = int(of["subnet"][host]), row.get("Interfaces")
        unknown = set(row) - {"Interfaces", "Services", "System info", "User info", "Sessions"}
        if unknown or interfaces not in (None, "All", "IP Address"):
            raise NotCompiled(
                f"{place}.{name}", f"{unknown.pop() if unknown else interfaces} is not compiled"
            )
        if interfaces == "IP Address" or (interfaces and subnet in of["allowed"]):
            addresses.add(host)
        if interfaces == "All" and subnet in of["allowed"]:
            subnets.add(subnet)
        if "System info" in row:
            names.add(host)
    return _mask_of(addresses), _mask_of(subnets), _mask_of(names)


def _explored(rows: Mapping[str, Any], of: Mapping[str, Any]) -> dict[str, Any]:
    hosts, told, shows = tuple(rows), [], []
    for name, row in rows.items():
        info = row.get("info") or {}
        for other, facts in info.items():
            if unknown := set(facts) - {"Interfaces", "Services", "System info"}:
                raise NotCompiled(f"Hosts.{name}.info.{other}", f"{unknown.pop()} is not compiled")
        told.append(_told(f"Hosts.{name}.info", info, hosts, of))
        shows.append(
            any(
                {"OTService", "All"} & set(facts.get("Services", ()))
                and of["ot_number"][hosts.index(other)] != NONE
                for other, facts in info.items()
            )
        )
    addresses, subnets, names = zip(*told, strict=True)
    return {
        "explored_addresses": np.array(addresses),
        "explored_subnets": np.array(subnets),
        "explored_hostnames": np.array(names),
        "shows_ot_service": np.array(shows),
    }


def _actions_of_red(
    hosts: tuple[str, ...], subnets: tuple[str, ...], ot_hosts: tuple[int, ...]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Number what Red can be told to do, and say which number of an observation of Red's tells
    whether it is possible."""
    _, systems, *on_hosts, impact = scenario2.RED_ACTIONS
    names = ["Sleep", *(f"{systems} {name}" for name in subnets)]
    kinds, targets = [0] + [1] * len(subnets), [0, *range(len(subnets))]
    needed = [0, *range(len(subnets))]
    for number, kind, hosts_of_kind in (
        *((i, kind, range(len(hosts))) for i, kind in enumerate(on_hosts, DISCOVER_SERVICES)),
        (len(scenario2.RED_ACTIONS) - 1, impact, ot_hosts),
    ):
        for host in hosts_of_kind:
            names.append(f"{kind} {hosts[host]}")
            kinds.append(number)
            targets.append(host)
            fact = {DISCOVER_SERVICES: "address known", EXPLOIT: "ports known"}.get(
                number, "name known"
            )
            needed.append(
                len(subnets) + host * N_FACTS_OF_A_HOST + scenario2.FACTS_OF_A_HOST.index(fact)
            )
    return tuple(names), {
        "n_red_actions": len(names),
        "red_obs_size": len(subnets) + N_FACTS_OF_A_HOST * len(hosts) + 2,
        "red_action_kind": np.array(kinds),
        "red_action_target": np.array(targets),
        "fact_needed": np.array(needed),
    }


def _named(hosts: Iterable[str], part_of_name: str) -> int:
    return _mask_of(i for i, name in enumerate(hosts) if part_of_name in name)


def _interfaces(
    rows: Mapping[str, Any], name: str, other: str, of: Mapping[str, Any]
) -> str | None:
    """Return what exploring a host shows of another one's interfaces, or of its own."""
    shown = (rows[name].get("info") or {}).get(other, {}).get("Interfaces")
    hidden = shown == "All" and int(of["subnet"][list(rows).index(other)]) not in of["allowed"]
    return None if hidden else shown


def _b_line(rows: Mapping[str, Any], of: Mapping[str, Any]) -> dict[str, Any]:
    """Return the targets of B_line's plan, which names hosts.

    They are the hosts that it may attack first, the host of Enterprise that each host leads to, and
    the third host of each subnet, one of which has to lead to Op_Server0.
    """
    hosts = tuple(rows)
    members = [
        row[:n].tolist() for row, n in zip(of["subnet_hosts"], of["n_subnet_hosts"], strict=True)
    ]
    leads = []
    for name in hosts:
        shown = [name, *(other for other in hosts if other in (rows[name].get("info") or {}))]
        found = next((other for other in shown if "Enterprise" in other), None)
        leads.append(hosts.index(found) if found and _interfaces(rows, name, found, of) else NONE)
    user0 = hosts.index("User0") if "User0" in hosts else NONE
    first = (
        [host for host in members[of["subnet"][user0]] if host != user0] if user0 != NONE else []
    )
    return {
        "user_subnet": 0 if user0 == NONE else of["subnet"][user0],
        "first_hosts": np.array(first, np.int64),
        "n_first_hosts": len(first),
        "leads_to_enterprise": np.array(leads),
        "third_host": np.array([listed[2] if len(listed) > 2 else NONE for listed in members]),
    }


def _no_b_line(red: Mapping[str, Any], rows: Mapping[str, Any], of: Mapping[str, Any]) -> str:
    """Return why B_line has no plan in this network, or nothing."""
    hosts, facts = tuple(rows), red.get("INT", {}).get("Hosts", {})
    if facts.get("User0", {}).get("Interfaces") != "All" or of["user_subnet"] not in of["allowed"]:
        return "Red does not know User0 at the start"
    if not of["n_first_hosts"]:
        return "User0 is alone in its subnet"
    for host in of["first_hosts"]:
        if (enterprise := of["leads_to_enterprise"][host]) == NONE:
            return f"{hosts[host]} leads to no host of Enterprise"
        name = hosts[enterprise]
        if _interfaces(rows, name, name, of) != "All":
            return f"{name} does not show its subnet"
        if (third := of["third_host"][of["subnet"][enterprise]]) == NONE:
            return f"the subnet of {name} has no third host"
        if "Op_Server0" not in hosts or not _interfaces(rows, hosts[third], "Op_Server0", of):
            return f"{hosts[third]} does not lead to Op_Server0"
    return ""


SCENARIO2 = tables_of(scenario2.scenario2())
"""The tables of CAGE Challenge 2's own scenario."""
