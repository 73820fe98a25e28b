"""The tables of a scenario hold all facts that never change in an episode.

Facts that all scenarios share are constants of this file. A second record beside the network's
record holds all other facts. Scenarios of one `Capacity` share their compiled code.

Hosts and subnets have the order of the scenario. A set of hosts or of ports is a bit mask. Each
host numbers its ports: number e below N_EXPLOITS is the port that exploit e attacks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2 import scenario2
from workflow_rl.cage2.b_line_plan import PLAN
from workflow_rl.cage2.scenario.actions import BLUE, DECOYS, EXPLOITS, RED
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import WORTH_IN_TENTHS

NETWORK = IPv4Network("10.0.0.0/16")
NONE = 255
"""This number means "no host"."""

# --- Exploits and ports --------------------------------------------------------------------------

ETERNAL_BLUE, BLUE_KEEP, HTTP_RFI, HTTPS_RFI, SSH_BRUTE_FORCE, SQL_INJECTION, HARAKA_RCE, FTP = (
    range(8)
)
WEB_PORTS = (1 << HTTP_RFI) | (1 << HTTPS_RFI)
"""A mask of ports. SQL injection also needs one of them."""
N_EXPLOITS = len(EXPLOITS)
EXPLOITED_TYPES = tuple(exploit.process for exploit in EXPLOITS.values())
"""The type of process that each exploit attacks."""
PORTS = tuple(exploit.port for exploit in EXPLOITS.values())
SSH_PORT = SSH_BRUTE_FORCE
OTHER_PORTS = (8, 9, 10, 11, 13, 14, 15)
"""The numbers for ports of a host that no exploit attacks."""
EPHEMERAL = 12
"""One number for all ephemeral ports."""
FIRST_EPHEMERAL, N_EPHEMERAL = 49152, 60000 - 49152
# From the most to the least preferred exploit.
PREFERENCE = np.array(
    [FTP, HARAKA_RCE, SQL_INJECTION, HTTPS_RFI, HTTP_RFI, ETERNAL_BLUE, BLUE_KEEP, SSH_BRUTE_FORCE]
)
WORDS_OF_BRUTE_FORCE = 10
DETECTION_RATE = 0.95
ODDS_OF_TOP_CHOICE = 0.75
N_PIDS = 32768

PRIVILEGED_USERS = ("root", "SYSTEM")
SUPERUSERS = {"LINUX": "root", "WINDOWS": "SYSTEM"}
WORTHS = np.array([tenths for tenths in WORTH_IN_TENTHS.values() if tenths])
# What an exploit finds on a host. PATCHED: the exploit attacks a process, but always fails.
NOT_VULNERABLE, VULNERABLE, VULNERABLE_AS_ROOT, PATCHED = range(4)
# The versions of processes that csle-cyborg believes to be older than Haraka 2.8.9.
OLD_VERSIONS = (
    "openssh 1.3",
    "10.0.17763.1",
    "samba 3.0.20-debian",
    "apache tomcat",
    "python simplehttpserver",
    "smbv1",
    "haraka 2.7.0",
)

# --- Subnets -------------------------------------------------------------------------------------

# How Red reaches a subnet from its first host, where all its actions start. GUARDED: only while Red
# has a session on a host of Enterprise. SILENT: never, not even by a ping.
OPEN, GUARDED, SILENT = range(3)

# --- Blue's actions ------------------------------------------------------------------------------

N_DECOYS = len(DECOYS)
_DECOY = tuple(DECOYS)
# If `Misinform` starts one of these two decoys, no exploit attacks the decoy's process. Such
# processes have two further kinds, after the kinds of all other decoys.
_IDLE = ("DecoySmss", "DecoySvchost")
DECOY_NAMES = (*DECOYS, *_IDLE)
"""The name of the decoy of each kind of process."""
N_DECOY_KINDS = len(DECOY_NAMES)
# A name of _IDLE has two kinds. The later kind, which this dictionary keeps, is Misinform's.
_LAST_KIND = {name: kind for kind, name in enumerate(DECOY_NAMES)}
MISINFORM_KINDS = np.array([_LAST_KIND[name] for name in BLUE["Misinform"].sets_up_one_of])
_DECOYS_BY_KIND = [DECOYS[name] for name in DECOY_NAMES]
DECOY_PORT = np.array([PORTS.index(decoy.port) for decoy in _DECOYS_BY_KIND])
DECOY_FREE_PORT = np.array([PORTS.index(decoy.free_port) for decoy in _DECOYS_BY_KIND])
DECOY_IS_PRIVILEGED = np.array([decoy.as_system for decoy in _DECOYS_BY_KIND])

KINDS = tuple(BLUE)
SLEEP, MONITOR, ANALYSE, REMOVE, FIRST_DECOY, LAST_DECOY, RESTORE, MISINFORM = map(
    KINDS.index,
    ("Sleep", "Monitor", "Analyse", "Remove", _DECOY[0], _DECOY[-1], "Restore", "Misinform"),
)
COST = np.array([kind.cost for kind in BLUE.values()])
"""The cost of each kind of Blue's actions, in tenths of a reward."""
RESETS = np.array([kind.resets for kind in BLUE.values()])
DECEIVES = np.array([kind.deceives for kind in BLUE.values()])
"""RESETS and DECEIVES are indexed by the kind of Blue's action: see `actions.BlueKind`."""

# --- Red's actions -------------------------------------------------------------------------------

RED_SLEEP, DISCOVER_SYSTEMS, DISCOVER_SERVICES, EXPLOIT, ESCALATE, IMPACT = range(len(RED))
# The kind of an action that CybORG refuses, because Red does not know the action's target.
REFUSED = len(RED)
FALSE, TRUE, UNKNOWN = range(len(scenario2.SUCCESSES))
N_FACTS_OF_A_HOST = len(scenario2.FACTS_OF_A_HOST)

# --- Records -------------------------------------------------------------------------------------


class Capacity(NamedTuple):
    """The largest network for which a record has room. sessions: number of sessions at the start.
    services: number of decoys' services on one host. ot_hosts: number of hosts with OT services."""

    hosts: int
    subnets: int
    sessions: int
    services: int
    ot_hosts: int

    @property
    def mask(self) -> np.dtype[Any]:
        """The smallest type for a mask of hosts."""
        if self.hosts <= 16:
            return np.dtype(np.uint16)
        # The type is not uint64, because numba makes a float of an int64 and a uint64.
        return np.dtype(np.uint32 if self.hosts <= 32 else np.int64)


CAPACITIES = (
    Capacity(13, 3, 23, 6, 1),  # Scenario 2.
    Capacity(16, 8, 50, 8, 4),
    Capacity(32, 8, 98, 8, 8),
    Capacity(64, 8, 195, 8, 16),
)
MAX_LISTENING, MAX_PROCESSES = 24, 80
"""The largest numbers of connections and of processes that a host has at the start."""


@functools.cache
def tables_dtype(capacity: Capacity) -> np.dtype[Any]:
    """Return the type of the record that holds a scenario's tables."""
    n, subnets, sessions, _, ot_hosts = capacity
    # Two kinds of Blue's actions, Sleep and Monitor, have no host.
    n_blue_actions = 2 + (len(KINDS) - 2) * n
    # Sleep; one kind that acts on subnets; three kinds that act on hosts; Impact.
    n_red_actions = 1 + subnets + 3 * n + ot_hosts
    small: dict[str, Any] = {
        "worth_of_ot_service": ot_hosts,
        "n_hosts": (),
        "n_subnets": (),
        "n_sessions": (),
        # Addresses.
        "n_possible_subnets": (),
        "n_parts": subnets,
        "n_addresses": subnets,
        "subnet_hosts": (subnets, n),
        "n_subnet_hosts": subnets,
        "subnet": n,
        # The subnets, in the order of their first hosts, as in Red's action space.
        "subnets_by_host": subnets,
        # The host with a process that listens on a fixed address of NETWORK, `bound_address`. If
        # another host draws this address, Red's action space lists that host before this host.
        "bound_host": (),
        "reach": subnets,
        # Hosts.
        "listening": (n, MAX_LISTENING),
        "n_listening": n,
        "vulnerability": (n, N_EXPLOITS),
        "decoys_fail": n,
        "bruteforceable": n,
        "pids": (n, MAX_PROCESSES),
        "n_pids": n,
        "ot_number": n,
        "ot_pid": n,
        "port_side": n,
        # For each session of the start: its host, and its index ("slot") in `session_pid`. Slots
        # are in the order of hosts. `first_slot` is the first slot of each host.
        "starting_host": sessions,
        "starting_slot": sessions,
        "first_slot": n + 1,
        "n_blue_sessions": n,
        "blue_is_privileged": n,
        "red_host": (),
        # Whether the rules of CAGE-1 hold, and the mask of the exploits that Red has.
        "is_cage1": (),
        "exploits": (),
        # Blue.
        "action_kind": n_blue_actions,
        "action_host": n_blue_actions,
        "decoy_runs_on": (N_DECOYS, n),
        "service": N_DECOY_KINDS,
        # Red's numbered actions.
        "n_red_actions": (),
        "red_obs_size": (),
        "red_action_kind": n_red_actions,
        "red_action_target": n_red_actions,
        "fact_needed": n_red_actions,
        "shows_ot_service": n,
        # RedMeander's goal.
        "op_server": (),
        # B_line's targets, for each host that B_line may attack first.
        "plan_of_b_line": (n, len(PLAN)),
        "first_hosts": n,
        "n_first_hosts": (),
    }
    wide: dict[str, Any] = {
        # For each worth in WORTHS, the mask of the hosts with this worth.
        "worth": len(WORTHS),
        "bound_address": (),
        "subnet_mask": subnets,
        # For each host, the mask of the ports on which a process of the scenario listens.
        "listening_ports": n,
        "enterprise": (),
        "first_port": n,
        "explored_addresses": n,
        "explored_subnets": n,
        "groups_of_meander": 2,
    }
    columns: list[Any] = []
    for number_type, fields in ((np.int16, small), (np.int64, wide)):
        for name, shape in fields.items():
            # NumPy before 2.0 would make a field of shape 1 a single number. A tuple prevents this.
            columns.append((name, number_type, shape if isinstance(shape, tuple) else (shape,)))
    return np.dtype(columns, align=True)


class Tables(NamedTuple):
    """A scenario and its tables: see `description.tables_of`.

    starting: agent, host and user of each session, in the order in which CybORG's `State` starts
    sessions. of: the tables by name, without padding. record: the tables with padding, `[1]` of
    `tables_dtype`. ot_hosts: the numbers of the hosts with an OT service."""

    scenario: Scenario
    description: Mapping[str, Any]
    starting: tuple[tuple[str, int, str], ...]
    ot_hosts: tuple[int, ...]
    capacity: Capacity
    of: Mapping[str, Any]
    record: NDArray[Any]

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.scenario.hosts

    @property
    def subnets(self) -> tuple[str, ...]:
        return tuple(self.scenario.subnets)

    @property
    def decoy_fits(self) -> NDArray[np.bool_]:
        """Whether a decoy can ever be set up on a host, bool `[hosts, N_DECOYS]`."""
        port_in_use = (self.of["listening_ports"][:, None] >> DECOY_FREE_PORT[:N_DECOYS]) & 1
        fits: NDArray[np.bool_] = self.of["decoy_runs_on"].T & (port_in_use == 0)
        return fits
