"""One simulated network as a record of fixed size."""

from __future__ import annotations

import numpy as np

from workflow_rl.cage2.compiled.random import GENERATOR, N
from workflow_rl.cage2.compiled.tables import (
    N_DECOYS,
    N_EPHEMERAL,
    N_HOSTS,
    N_LISTENING,
    N_SERVICES,
    N_STARTING_SESSIONS,
    N_SUBNETS,
)

# A step adds at most a decoy and a red session: episodes of 100 steps always fit.
MAX_PROCESSES = 200
MAX_SUSPICIOUS_PIDS = 128
MAX_PORTS = 600
NONE = 255

# A process that was not there at the start: a decoy (numbered as in `tables.DECOYS`), or what Red
# runs in one of its sessions, from an exploit or by SSH; bit 16 marks root's and SYSTEM's.
SHELL, SSH = N_DECOYS, N_DECOYS + 1
KIND, PRIVILEGED = 15, 16

PROCESS = np.dtype([("pid", np.uint16), ("kind", np.uint8), ("next", np.uint8)])

# Why an episode cannot go on.
NO_ERROR, TOO_MANY_PROCESSES, TOO_MANY_SUSPICIOUS_PIDS, TOO_MANY_PORTS, CYBORG_FAILS = range(5)
ERRORS = (
    "",
    f"more than {MAX_PROCESSES} decoys and red sessions at once",
    f"more than {MAX_SUSPICIOUS_PIDS} processes caught by monitoring",
    f"more than {MAX_PORTS} ephemeral ports in use",
    "CybORG itself fails at this point",
)

# What every step reads comes first: with thousands of envs, reaching a record costs more than the
# step itself.
STATE = np.dtype(
    [
        ("error", np.uint8),
        ("red_agent", np.uint8),
        # The last step.
        ("red_kind", np.uint8),
        ("red_target", np.uint8),
        ("red_success", np.uint8),
        ("blue_success", np.uint8),
        # Connections seen in it, all on one host: how many, the mask of their local ports, and
        # whether one leads to a reverse shell; the host with a process caught; and whether Blue's
        # analysis found Red's files.
        ("event_host", np.uint8),
        ("reverse_shell_seen", np.bool_),
        ("event_ports", np.uint16),
        ("n_events", np.uint8),
        ("caught_host", np.uint8),
        ("malware_found", np.bool_),
        # B_line: where it is, which actions it has made before, the first host it attacks.
        ("b_line_action", np.uint8),
        ("b_line_made", np.uint16),
        ("b_line_host", np.uint8),
        # RedMeander's lists, as masks, and what it did last.
        ("meander_subnets", np.uint8),
        ("meander_scanned", np.uint16),
        ("meander_exploited", np.uint16),
        ("meander_escalated", np.uint16),
        ("meander_mapped", np.uint16),
        ("meander_last_host", np.uint8),
        ("meander_last_address", np.uint8),
        # The host whose address comes first in Red's list.
        ("first_address", np.uint8),
        # What Red knows: its action space, and the memory of `RedAbstractSession`.
        ("known_subnets", np.uint8),
        ("known_addresses", np.uint16),
        ("known_hostnames", np.uint16),
        ("scanned_by_session", np.uint16),
        ("knows_ot_service", np.bool_),
        # The OT service: does its process run, is it listed as active, and with its PID?
        ("ot_running", np.bool_),
        ("ot_active", np.bool_),
        ("ot_listed_with_pid", np.bool_),
        # Masks of hosts: Red's files are there, Red has privileged sessions there.
        ("has_malware", np.uint16),
        ("is_owned", np.uint16),
        # Two bits a host: no, unknown, user, privileged.
        ("compromise", np.uint32),
        ("mt_index", GENERATOR["mt_index"]),
        ("n_red_sessions", np.uint8, N_HOSTS),
        ("known_ports", np.uint8, N_HOSTS),
        # Processes, on each host a linked list in the order in which CybORG lists them.
        ("first_process", np.uint8, N_HOSTS),
        ("last_process", np.uint8, N_HOSTS),
        ("free_process", np.uint8),
        ("n_processes", np.uint8),
        ("n_suspicious", np.uint8),
        ("busy_host", np.uint8),
        ("n_ports", np.int16, 2),
        ("session_pid", np.uint16, N_STARTING_SESSIONS),
        ("processes", PROCESS, MAX_PROCESSES),
        # The PID that a decoy's service is listed with; 0: no such service.
        ("service_pid", np.uint16, (N_HOSTS, N_SERVICES)),
        # What monitoring has caught so far: `VelociraptorServer.sus_pids`.
        ("suspicious_pid", np.uint16, MAX_SUSPICIOUS_PIDS),
        ("suspicious_host", np.uint8, MAX_SUSPICIOUS_PIDS),
        # Ephemeral ports in use: on Red's host and on one other with many, a bit each; of the
        # rest, the first half of the hosts is listed from the left of `ports`, the others from the
        # right.
        ("ports", np.uint16, MAX_PORTS),
        ("port_bits", np.uint32, (2, (N_EPHEMERAL + 31) // 32)),
        ("mt", np.uint32, N),
        # The addresses: each subnet's index among the possible ones, each host's within its subnet.
        ("subnet_index", np.uint16, N_SUBNETS),
        ("address_index", np.uint8, N_HOSTS),
    ],
    align=True,
)
# A scan shows all that listens on a host.
assert N_LISTENING.max() + MAX_PROCESSES <= np.iinfo(STATE["n_events"]).max
