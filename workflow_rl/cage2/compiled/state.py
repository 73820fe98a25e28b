"""The record of one simulated network. The record's size depends on the length of episodes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.generator import GENERATOR, N
from workflow_rl.cage2.compiled.tables import CAPACITIES, Capacity

SIZES = (100, 1_000, 10_000)
"""The lengths of episodes, in steps, for which there is a record. An env has the smallest record in
which its episodes fit. The simulator is compiled for a record when the record is first needed."""
MAX_PORTS = 600
NONE = tables.NONE
NO_PROCESS = 0  # Index 0 of `processes` is never used.

# The kinds of processes that are added in an episode. The first kinds are the decoys, as in
# `tables`. SSHBruteForce gives Red a session of kind SSH, and any other exploit one of kind SHELL.
SHELL, SSH = tables.N_DECOY_KINDS, tables.N_DECOY_KINDS + 1
# The lowest four bits of `kind`, KIND, are the kind's number. The flag PRIVILEGED marks processes
# of root and SYSTEM. The flag SANDBOX marks processes in a decoy's sandbox (only in CAGE-1).
KIND, PRIVILEGED, SANDBOX = 15, 16, 32

# The values of `error`: why an episode cannot go on.
NO_ERROR, TOO_MANY_PROCESSES, TOO_MANY_SUSPICIOUS_PIDS, TOO_MANY_PORTS, CYBORG_FAILS = range(5)


def error_of(state: Any) -> str:
    """Return, in words, why a record's episode cannot go on."""
    return (
        "",
        f"more than {len(state['processes']) - 1} decoys and red sessions at once",
        f"more than {len(state['suspicious_pid'])} processes caught by monitoring",
        f"more than {len(state['ports'])} ephemeral ports in use",
        "CybORG itself fails at this point",
    )[state["error"]]


def state_for(
    n_steps: int, any_ports: bool = False, capacity: Capacity = CAPACITIES[0]
) -> np.dtype[Any]:
    """Return the type of the smallest record that holds episodes of n_steps, or of the largest.

    any_ports: whether the record has a bit for every port. Red from outside compiled code can use
    many ports in few steps, which needs such a record."""
    return _state(next((size for size in SIZES if n_steps <= size), SIZES[-1]), any_ports, capacity)


def red_fields(capacity: Capacity) -> list[Any]:
    """Return the fields about Red: the red agent, what Red holds and what Red knows. The record of
    a network and the record of a hypothesis have these fields."""
    mask = capacity.mask
    return [
        ("red_agent", np.uint8),
        # Red's last action, and whether it succeeded.
        ("red_kind", np.uint8),
        ("red_target", np.uint8),
        ("red_success", np.uint8),
        # B_line's last action in PLAN, the mask of actions taken, and the first attacked host.
        ("b_line_action", np.uint8),
        ("b_line_made", np.uint16),
        ("b_line_host", np.uint8),
        # RedMeander's lists as masks, and the targets of its last action.
        ("meander_subnets", np.uint8),
        ("meander_scanned", mask),
        ("meander_exploited", mask),
        ("meander_escalated", mask),
        ("meander_mapped", mask),
        ("meander_last_host", np.uint8),
        ("meander_last_address", np.uint8),
        # What Red knows: CybORG keeps this in Red's action space and in `RedAbstractSession`.
        ("known_subnets", np.uint8),
        ("known_addresses", mask),
        ("known_hostnames", mask),
        ("scanned_by_session", mask),
        ("knows_ot_service", np.bool_),
        # Two masks: the hosts with Red's files, and the hosts where Red has a privileged session.
        ("has_malware", mask),
        ("is_owned", mask),
    ]


def _last_step(count: type[np.unsignedinteger], capacity: Capacity) -> list[Any]:
    """Return the fields that hold results of the last step, or that every step reads."""
    return [
        ("blue_success", np.uint8),
        # In the last step, monitoring saw `n_events` connections on `event_host`. `event_ports` is
        # the mask of their local ports. Monitoring caught a process on `caught_host`: CybORG added
        # its PID to Blue's suspicious PIDs. `malware_found`: Blue's analysis found Red's files.
        ("event_host", np.uint8),
        ("reverse_shell_seen", np.bool_),
        ("n_events", count),
        ("event_ports", np.uint16),
        ("caught_host", np.uint8),
        ("malware_found", np.bool_),
        # Red's action space lists this host's address right before the address of `bound_host`.
        ("first_address", np.uint8),
        # For each OT service: whether its process runs, whether the host lists the service as
        # active, and whether the host lists the service's PID.
        ("ot_running", np.uint8, capacity.ot_hosts),
        ("ot_active", np.uint8, capacity.ot_hosts),
        ("ot_listed_with_pid", np.uint8, capacity.ot_hosts),
        # The number of the scenario in the batch's family.
        ("network", np.uint16),
        # Two bits for each host, 16 hosts in a word: see `observe.UNCOMPROMISED`.
        ("compromise", np.uint32, (capacity.hosts + 15) // 16),
        ("mt_index", GENERATOR["mt_index"]),
        ("n_red_sessions", count, capacity.hosts),
        ("known_ports", np.uint8, capacity.hosts),
    ]


def _processes(n_processes: int, count: type[np.unsignedinteger], capacity: Capacity) -> list[Any]:
    """Return the fields of processes, and the lengths of the lists at the end of the record.

    The processes of a host are a linked list, in CybORG's order."""
    process = np.dtype([("pid", np.uint16), ("kind", np.uint8), ("next", count)])
    return [
        ("first_process", count, capacity.hosts),
        ("last_process", count, capacity.hosts),
        ("free_process", count),
        ("n_processes", count),
        ("n_suspicious", count),
        ("busy_host", np.uint8),
        ("n_ports", np.int16, 2),
        ("session_pid", np.uint16, capacity.sessions),
        ("processes", process, n_processes + 1),
        # The PID with which a decoy's service is listed. 0 means that the service is not listed.
        ("service_pid", np.uint16, (capacity.hosts, capacity.services)),
    ]


def _ports(capacity: Capacity) -> tuple[Any, int]:
    """Return the type and the length of the list of ports: see `description._lists_of_ports`."""
    if capacity == CAPACITIES[0]:
        return np.uint16, MAX_PORTS
    return np.uint32, max(MAX_PORTS, 40 * capacity.hosts)


@functools.cache
def _state(n_steps: int, any_ports: bool, capacity: Capacity) -> np.dtype[Any]:
    # A step adds at most one decoy, one red session and one caught process. The number of ports
    # that a step uses depends on the decoys, so records of long episodes have a bit for each port.
    is_long = n_steps > SIZES[0]
    any_ports |= is_long
    n_processes, n_suspicious = 2 * n_steps, max(128, n_steps)
    n_rows = capacity.hosts if any_ports else 2
    count: type[np.unsignedinteger] = np.uint16 if is_long else np.uint8
    # A scan counts one event for each process that listens on a host.
    assert tables.MAX_LISTENING + n_processes <= np.iinfo(count).max
    return np.dtype(
        [
            # Fields that every step reads come first, in few cache lines. With thousands of envs,
            # loading a record costs more time than the step itself.
            ("error", np.uint8),
            *red_fields(capacity),
            *_last_step(count, capacity),
            *_processes(n_processes, count, capacity),
            # All processes that monitoring has caught: CybORG's `VelociraptorServer.sus_pids`.
            ("suspicious_pid", np.uint16, n_suspicious),
            ("suspicious_host", np.uint8, n_suspicious),
            # Ephemeral ports in use. With `any_ports`, every host has a bit for each port. Without,
            # only Red's host and one busy host have bits. `ports` lists the ports of all other
            # hosts: see `description._lists_of_ports`.
            ("ports", *_ports(capacity)),
            ("port_bits", np.uint32, (n_rows, (tables.N_EPHEMERAL + 31) // 32)),
            ("mt", np.uint32, N),
            # An address consists of the subnet's index among the possible subnets and the host's
            # index in its subnet.
            ("subnet_index", np.uint16, capacity.subnets),
            ("address_index", np.uint8, capacity.hosts),
        ],
        align=True,
    )


STATE = state_for(SIZES[0])
