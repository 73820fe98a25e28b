"""One simulated network as a record, whose size depends on the length of episodes.

What grows in an episode lies in linked lists of `cells`: a host's processes, its events and files,
its red sessions; a process's connections; a session's children, its scanned ports; the suspicious
PIDs of a host. A list is known by its first cell; 0: none. The ephemeral ports in use are a log of
all hosts' draws.
"""

from __future__ import annotations

import functools
from dataclasses import fields
from typing import Any

import numpy as np

from workflow_rl.cage4.agent.raw_record import FIRST_PORT
from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.generator import GENERATOR
from workflow_rl.cage4.scenario.scenario4 import Scenario

SIZES = (500, 2_000, 10_000)
"""Lengths of episodes, in steps, for which there is a record. The smallest one that fits is used,
and the simulator is compiled for it when it is first needed."""
N_PORTS = 60000 - FIRST_PORT
MAX_ORIGINAL = 7
MAX_REACHED, MAX_NEWS = 48, 8
FIRST_PID, N_PIDS = 1000, 9000
UNSEEN = 255  # No state of a host, for a finite-state red agent.

# Why an episode cannot go on.
(
    NO_ERROR,
    TOO_MANY_CELLS,
    TOO_MANY_PORTS,
    TOO_MANY_SESSIONS,
    PID_TOO_HIGH,
    PAST_THE_END,
    NO_SESSIONS_IN_OBSERVATION,
    NO_KNOWN_HOST,
    NO_PROCESS_OF_SERVICE,
) = range(9)


def error_of(state: Any) -> str:
    """Return in words why a record's episode cannot go on."""
    return (
        "",
        f"more than {4 * len(state['cells']) // 5} events, processes and ports at once",
        f"more than {len(state['log_port'])} ephemeral ports drawn",
        f"more than {state['sessions'].shape[1]} sessions or session ids of a red agent",
        "a PID above 65535",
        f"CybORG itself fails: step {state['step_count']} exceeds the last phase",
        "CybORG itself fails: a moved session's host has no sessions in the agent's observation",
        "CybORG itself fails: a red agent knows no host to choose",
        "CybORG itself fails: an active service without a process",
    )[state["error"]]


def room_for(n_steps: int) -> int:
    """Return the smallest of SIZES that holds any episode of n_steps; the largest, if none does."""
    return next((size for size in SIZES if n_steps <= size), SIZES[-1])


CELL = np.dtype(
    [
        ("next", np.uint32),
        ("first", np.uint32),  # Of a list that belongs to this cell.
        ("pid", np.uint16),
        ("local_port", np.uint16),
        ("remote_port", np.uint16),
        ("local_host", np.uint8),
        ("remote_host", np.uint8),
        ("kind", np.uint8),
        ("user", np.uint8),
    ],
    align=True,
)
SESSION = np.dtype(
    [
        ("children", np.uint32),
        ("scans", np.uint32),
        ("ident", np.uint16),
        ("pid", np.uint16),
        ("parent", np.int16),
        ("host", np.uint8),
        ("type", np.uint8),
        ("user", np.uint8),
    ],
    align=True,
)

SCENARIO = np.dtype([(field.name, np.float64) for field in fields(Scenario)])
"""0 users or servers: their number is drawn."""

_EVERY_STEP: list[Any] = [
    ("scenario", SCENARIO),
    ("error", np.uint8),
    ("red_class", np.uint8),
    ("phase", np.uint8),
    ("done", np.bool_),
    *GENERATOR,
    ("max_steps", np.int32),
    ("step_count", np.int32),
    ("machine_reward", np.int32),
    ("action_cost", np.int32),
    # Blue: the action in progress and the steps it still takes (0: none), and what is executed.
    ("blue_kind", np.uint8, constants.N_BLUE),
    ("blue_target", np.uint8, constants.N_BLUE),
    ("blue_source", np.uint8, constants.N_BLUE),
    ("blue_ticks", np.uint8, constants.N_BLUE),
    ("blue_done", np.uint8, constants.N_BLUE),
    # What the last one that took effect showed: whether Block or Allow changed anything, the files
    # of an Analyse (see `files_on`), the PID of a decoy.
    ("blue_result", np.uint16, constants.N_BLUE),
    # Bits of the zones that a zone blocks.
    ("blocked", np.uint16, constants.N_ZONES),
    # Red: the action in progress as above, its session, and the host that the session was on when
    # the step's actions were sorted.
    ("red_kind", np.uint8, constants.N_RED),
    ("red_target", np.uint8, constants.N_RED),
    ("red_hostname", np.uint8, constants.N_RED),
    ("red_session", np.uint16, constants.N_RED),
    ("red_ticks", np.uint8, constants.N_RED),
    ("red_done", np.uint8, constants.N_RED),
    ("route_start", np.uint8, constants.N_RED),
    ("is_active", np.uint8, constants.N_RED),
    ("red_steps", np.int32, constants.N_RED),
    # What agents of FROM_OUTSIDE choose: an index of `red_api.RED_CHOICES`, and a session's id.
    ("red_choice", np.int16, constants.N_RED),
    ("red_choice_session", np.int16, constants.N_RED),
    # What a red agent observed of its last action: kind, success, target, whether the target is
    # in the observation, the source of an exploit, the session, whether that is abstract, whether
    # linked hosts were shown.
    ("seen_kind", np.uint8, constants.N_RED),
    ("seen_success", np.uint8, constants.N_RED),
    ("seen_target", np.uint8, constants.N_RED),
    ("sees_target", np.uint8, constants.N_RED),
    ("seen_source", np.uint8, constants.N_RED),
    ("seen_session", np.int32, constants.N_RED),
    ("seen_abstract", np.uint8, constants.N_RED),
    ("sees_links", np.uint8, constants.N_RED),
    # Sessions that moved to the agent in this step.
    ("n_news", np.uint8, constants.N_RED),
    ("news_host", np.uint8, (constants.N_RED, MAX_NEWS)),
    ("news_session", np.uint16, (constants.N_RED, MAX_NEWS)),
    # Greens, in order, and the servers that those of a zone may reach.
    ("n_greens", np.uint8),
    ("green_host", np.uint8, constants.MAX_GREENS),
    ("green_choice", np.uint8, constants.MAX_GREENS),
    ("green_failed", np.uint8, constants.MAX_GREENS),  # In the last step.
    ("n_reached", np.uint8, constants.N_ZONES),
    ("reached", np.uint8, (constants.N_ZONES, MAX_REACHED)),
    # Bits of the lists of events that a host has: see `events`.
    ("has_events", np.uint8, constants.N_HOSTS),
    ("exists", np.uint8, constants.N_HOSTS),
    ("n_users", np.uint8, constants.N_ZONES),
    ("n_servers", np.uint8, constants.N_ZONES),
    ("n_services", np.uint8, constants.N_HOSTS),
    ("service_kind", np.uint8, (constants.N_HOSTS, constants.N_SERVICES)),
    ("service_active", np.uint8, (constants.N_HOSTS, constants.N_SERVICES)),
    ("reliability", np.uint8, (constants.N_HOSTS, constants.N_SERVICES)),
    ("service_pid", np.uint16, (constants.N_HOSTS, constants.N_SERVICES)),
]


_OF_HOSTS: list[Any] = [
    ("events", np.uint32, (constants.N_HOSTS, 4)),
    ("last_event", np.uint32, (constants.N_HOSTS, 4)),
    ("processes", np.uint32, constants.N_HOSTS),
    ("last_process", np.uint32, constants.N_HOSTS),
    ("red_sessions", np.uint32, constants.N_HOSTS),
    ("files", np.uint32, constants.N_HOSTS),
    ("impact_count", np.uint16, constants.N_HOSTS),
]
_OF_AGENTS: list[Any] = [
    # What red agents know of hosts and zones.
    ("knows_address", np.uint8, (constants.N_RED, constants.N_HOSTS)),
    ("knows_name", np.uint8, (constants.N_RED, constants.N_HOSTS)),
    ("known_zones", np.uint16, constants.N_RED),
    # A finite-state agent's hosts in order, with state, and whether it knows the name.
    ("n_hosts", np.uint8, constants.N_RED),
    ("hosts", np.uint8, (constants.N_RED, constants.N_HOSTS)),
    ("host_state", np.uint8, (constants.N_RED, constants.N_HOSTS)),
    ("named", np.uint8, (constants.N_RED, constants.N_HOSTS)),
    # Blue sessions: on each host an id; the order in which the agent lists the hosts.
    ("blue_parent", np.uint8, constants.N_BLUE),
    ("n_blue_sessions", np.uint8, constants.N_BLUE),
    ("blue_order", np.uint8, (constants.N_BLUE, constants.MAX_BLUE_SESSIONS)),
    ("blue_ident", np.uint8, constants.N_HOSTS),
    ("suspicious", np.uint32, constants.N_HOSTS),
    ("last_suspicious", np.uint32, constants.N_HOSTS),
    ("n_suspicious", np.uint8, constants.N_BLUE),
    ("suspicious_order", np.uint8, (constants.N_BLUE, constants.MAX_BLUE_SESSIONS)),
]
_OF_THE_EPISODE: list[Any] = [
    # Zones with a list of blocked zones, in order, and the lists.
    ("n_blocking", np.uint8),
    ("blocking", np.uint8, constants.N_ZONES),
    ("n_blocked", np.uint8, constants.N_ZONES),
    ("blocked_order", np.uint8, (constants.N_ZONES, constants.N_ZONES)),
    # The scenario: octets of zones and hosts, the hosts' distribution (0 Ubuntu, 1 Kali), their
    # processes and session PIDs.
    ("zone_octet", np.uint8, constants.N_ZONES),
    ("host_octet", np.uint8, constants.N_HOSTS),
    ("distribution", np.uint8, constants.N_HOSTS),
    ("n_original", np.uint8, constants.N_HOSTS),
    ("original_kind", np.uint8, (constants.N_HOSTS, MAX_ORIGINAL)),
    ("original_pid", np.uint16, (constants.N_HOSTS, MAX_ORIGINAL)),
    ("marked", np.uint8, constants.N_HOSTS),  # Working space.
]


@functools.cache
def state_for(n_steps: int) -> np.dtype[Any]:
    """Return the smallest record that holds any episode of n_steps; the largest, if none does."""
    size = room_for(n_steps)
    # A step needs at most 16 cells for each step of the episode, whose decoys all lie on one host.
    n_cells, n_ports, n_sessions = (64 + 16) * size, 192 * size, size // 2
    return np.dtype(
        [
            *_EVERY_STEP,
            *_OF_HOSTS,
            # Red sessions, and their number since the start; ids for actions, in order, and whether
            # an agent knows an id.
            ("n_sessions", np.uint16, constants.N_RED),
            ("sessions_count", np.int32, constants.N_RED),
            ("sessions", SESSION, (constants.N_RED, n_sessions)),
            ("n_ids", np.uint16, constants.N_RED),
            ("ids", np.uint16, (constants.N_RED, n_sessions)),
            ("knows_id", np.uint8, (constants.N_RED, n_sessions)),
            *_OF_AGENTS,
            *_OF_THE_EPISODE,
            # Cells in use end at n_cells, but those in the list that starts at free_cell.
            ("n_cells", np.uint32),
            ("free_cell", np.uint32),
            ("cells", CELL, n_cells),
            # Ephemeral ports: a bit for each of a host, and all draws. Those of a host begin at
            # first_log, because Restore forgets the ones before.
            ("port_bits", np.uint32, (constants.N_HOSTS, (N_PORTS + 31) // 32)),
            ("first_log", np.uint32, constants.N_HOSTS),
            ("n_log", np.uint32),
            ("log_host", np.uint8, n_ports),
            ("log_port", np.uint16, n_ports),
        ],
        align=True,
    )


STATE = state_for(SIZES[0])
