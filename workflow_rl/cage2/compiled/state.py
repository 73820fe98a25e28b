"""One simulated network as a record, whose size depends on the length of episodes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.generator import GENERATOR, N
from workflow_rl.cage2.compiled.tables import CAPACITIES, Capacity

SIZES = (100, 1_000, 10_000)
"""Lengths of episodes, in steps, for which there is a record. The smallest one that fits is used,
and the simulator is compiled for it when it is first needed."""
MAX_PORTS = 600
NONE = tables.NONE
NO_PROCESS = 0  # The first slot is never used.

# Kinds of processes that are added in an episode: decoys (numbered as in `tables`), and those
# of Red's sessions, from an exploit or by SSH. Bit 16 marks processes of root and SYSTEM,
# and bit 32 those in a decoy's sandbox, which only CAGE-1 has.
SHELL, SSH = tables.N_DECOY_KINDS, tables.N_DECOY_KINDS + 1
KIND, PRIVILEGED, SANDBOX = 15, 16, 32

# Why an episode cannot go on.
NO_ERROR, TOO_MANY_PROCESSES, TOO_MANY_SUSPICIOUS_PIDS, TOO_MANY_PORTS, CYBORG_FAILS = range(5)


def error_of(state: Any) -> str:
    """Return in words why a record's episode cannot go on."""
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
    """Return the smallest record that holds any episode of n_steps; the largest, if none does.

    any_ports: the record has room for any number of ports in use, which a Red from outside can
    reach in few steps.
    """
    return _state(next((size for size in SIZES if n_steps <= size), SIZES[-1]), any_ports, capacity)


def red_fields(capacity: Capacity) -> list[Any]:
    """Return what Red is, has and knows: fields of a network, and of an account of one."""
    mask = capacity.mask
    return [
        ("red_agent", np.uint8),
        # The last step.
        ("red_kind", np.uint8),
        ("red_target", np.uint8),
        ("red_success", np.uint8),
        # B_line: where it is, which actions it has made before, the first host it attacks.
        ("b_line_action", np.uint8),
        ("b_line_made", np.uint16),
        ("b_line_host", np.uint8),
        # RedMeander's lists, as masks, and what it did last.
        ("meander_subnets", np.uint8),
        ("meander_scanned", mask),
        ("meander_exploited", mask),
        ("meander_escalated", mask),
        ("meander_mapped", mask),
        ("meander_last_host", np.uint8),
        ("meander_last_address", np.uint8),
        # What Red knows: its action space, and the memory of `RedAbstractSession`.
        ("known_subnets", np.uint8),
        ("known_addresses", mask),
        ("known_hostnames", mask),
        ("scanned_by_session", mask),
        ("knows_ot_service", np.bool_),
        # Masks of hosts: Red's files are there, Red has privileged sessions there.
        ("has_malware", mask),
        ("is_owned", mask),
    ]


def _last_step(count: type[np.unsignedinteger], capacity: Capacity) -> list[Any]:
    """Return the fields of what the last step showed, and of what every step reads."""
    return [
        ("blue_success", np.uint8),
        # Connections seen in the last step, all on one host: how many, the mask of their local
        # ports, and whether one leads to a reverse shell; the host with a process caught; and
        # whether Blue's analysis found Red's files.
        ("event_host", np.uint8),
        ("reverse_shell_seen", np.bool_),
        ("n_events", count),
        ("event_ports", np.uint16),
        ("caught_host", np.uint8),
        ("malware_found", np.bool_),
        # The host whose address comes right before `tables.bound_host`'s in Red's list.
        ("first_address", np.uint8),
        # The OT services: does the process run, is it listed as active, and with its PID?
        ("ot_running", np.uint8, capacity.ot_hosts),
        ("ot_active", np.uint8, capacity.ot_hosts),
        ("ot_listed_with_pid", np.uint8, capacity.ot_hosts),
        # The scenario: the row of its tables.
        ("network", np.uint16),
        # Two bits a host, 16 hosts a word: no, unknown, user, privileged.
        ("compromise", np.uint32, (capacity.hosts + 15) // 16),
        ("mt_index", GENERATOR["mt_index"]),
        ("n_red_sessions", count, capacity.hosts),
        ("known_ports", np.uint8, capacity.hosts),
    ]


def _processes(n_processes: int, count: type[np.unsignedinteger], capacity: Capacity) -> list[Any]:
    """Return the fields of processes, on each host a linked list in the order in which CybORG lists
    them, and the numbers of what the last fields hold."""
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
        # The PID that a decoy's service is listed with; 0: no such service.
        ("service_pid", np.uint16, (capacity.hosts, capacity.services)),
    ]


def _ports(capacity: Capacity) -> tuple[Any, int]:
    """Return the type and the number of listed ports."""
    is_small = capacity == CAPACITIES[0]
    return (np.uint16, MAX_PORTS) if is_small else (np.uint32, max(MAX_PORTS, 40 * capacity.hosts))


@functools.cache
def _state(n_steps: int, any_ports: bool, capacity: Capacity) -> np.dtype[Any]:
    # A step adds at most a decoy, a red session and a process caught. The number of ports depends
    # on the decoys in place: long episodes have a bit for each port.
    is_long = n_steps > SIZES[0]
    any_ports |= is_long
    n_processes, n_suspicious = 2 * n_steps, max(128, n_steps)
    n_rows = capacity.hosts if any_ports else 2
    count: type[np.unsignedinteger] = np.uint16 if is_long else np.uint8
    # A scan shows all that listens on a host.
    assert tables.MAX_LISTENING + n_processes <= np.iinfo(count).max
    return np.dtype(
        [
            # Fields that every step reads come first: with thousands of envs, loading a record
            # costs more than the step itself.
            ("error", np.uint8),
            *red_fields(capacity),
            *_last_step(count, capacity),
            *_processes(n_processes, count, capacity),
            # What monitoring has caught so far: `VelociraptorServer.sus_pids`.
            ("suspicious_pid", np.uint16, n_suspicious),
            ("suspicious_host", np.uint8, n_suspicious),
            # Ephemeral ports in use. With `any_ports` a bit for each of every host. Otherwise, on
            # Red's host and on one other with many, a bit each; those of the rest are
            # listed, see `tables.port_side`.
            ("ports", *_ports(capacity)),
            ("port_bits", np.uint32, (n_rows, (tables.N_EPHEMERAL + 31) // 32)),
            ("mt", np.uint32, N),
            # The addresses: each subnet's index among the possible ones, each host's within its
            # subnet.
            ("subnet_index", np.uint16, capacity.subnets),
            ("address_index", np.uint8, capacity.hosts),
        ],
        align=True,
    )


STATE = state_for(SIZES[0])
