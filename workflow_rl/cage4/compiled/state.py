"""One simulated network as a record, whose size depends on the length of episodes.

Everything that grows in an episode is in linked lists of `cells`. A host has lists of processes,
events, files, red sessions and suspicious PIDs. A process has a list of connections. A session has
lists of children and of scanned hosts, and a scanned host has a list of ports. A field has the
index of a list's first cell, or 0 if the list is empty. A log of all draws has the ephemeral ports.
"""

import functools
from dataclasses import fields
from typing import Any

import numpy as np

from workflow_rl.cage4.agent.raw_record import FIRST_PORT
from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.generator import GENERATOR
from workflow_rl.cage4.scenario.scenario4 import Scenario

SIZES = (500, 2_000, 10_000)
"""The episode lengths, in steps, for which records are defined. A simulator uses the smallest
record that fits, and is compiled when this record is first used."""
N_PORTS = 60000 - FIRST_PORT
MAX_ORIGINAL = 7
MAX_REACHED, MAX_NEWS = 48, 8
FIRST_PID, N_PIDS = 1000, 9000
UNSEEN = 255  # The state of a host that a red agent has not seen.

# The values of `error`: why an episode cannot go on.
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
    """Return words that say why a record's episode cannot go on, or ""."""
    return (
        "",
        f"more than {(4 * len(state['cells'])) // 5} events, processes and ports at once",
        f"more than {len(state['log_port'])} ephemeral ports drawn",
        f"more than {state['sessions'].shape[1]} sessions or session ids of a red agent",
        "a PID above 65535",
        f"CybORG itself fails: step {state['step_count']} exceeds the last phase",
        "CybORG itself fails: a moved session's host has no sessions in the agent's observation",
        "CybORG itself fails: a red agent knows no host to choose",
        "CybORG itself fails: an active service without a process",
    )[state["error"]]


def room_for(n_steps: int) -> int:
    """Return the smallest of SIZES that is n_steps or more. If no size is, return the largest."""
    return next((size for size in SIZES if n_steps <= size), SIZES[-1])


CELL = np.dtype(
    [
        ("next", np.uint32),
        ("first", np.uint32),  # The first cell of a list that belongs to this cell.
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
"""If `users` or `servers` is 0, the number of users or servers is drawn."""

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
    # Each blue agent's action in progress.
    ("blue_kind", np.uint8, constants.N_BLUE),
    ("blue_target", np.uint8, constants.N_BLUE),
    ("blue_source", np.uint8, constants.N_BLUE),
    # How many more steps the action takes; 0 if no action is in progress.
    ("blue_ticks", np.uint8, constants.N_BLUE),
    # The kind of action that took effect in the last step.
    ("blue_done", np.uint8, constants.N_BLUE),
    # The result of the last action that took effect. Block and Allow: whether the action changed
    # anything. Analyse: see `files_on`. DeployDecoy: the decoy's PID.
    ("blue_result", np.uint16, constants.N_BLUE),
    # Bits of the zones that a zone blocks.
    ("blocked", np.uint16, constants.N_ZONES),
    # Each red agent's action in progress, with the id of the acting session. `route_start` is the
    # acting session's host when `sort_actions` ran.
    ("red_kind", np.uint8, constants.N_RED),
    ("red_target", np.uint8, constants.N_RED),
    ("red_hostname", np.uint8, constants.N_RED),
    ("red_session", np.uint16, constants.N_RED),
    ("red_ticks", np.uint8, constants.N_RED),
    ("red_done", np.uint8, constants.N_RED),
    ("route_start", np.uint8, constants.N_RED),
    ("is_active", np.uint8, constants.N_RED),
    ("red_steps", np.int32, constants.N_RED),
    # The choices of agents of FROM_OUTSIDE: an index of `red_api.RED_CHOICES`, and a session's id.
    ("red_choice", np.int16, constants.N_RED),
    ("red_choice_session", np.int16, constants.N_RED),
    # What a red agent observed of its last action. `sees_target`: whether it saw the target.
    # `seen_source`: the host from which an exploit came. `seen_session`: the opened or escalated
    # session. `seen_abstract`: whether that session is abstract. `sees_links`: whether it saw the
    # hosts of `constants.LINKED`.
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
    # Greens, in order. `reached`: by zone, the servers that the zone's greens may access.
    ("n_greens", np.uint8),
    ("green_host", np.uint8, constants.MAX_GREENS),
    ("green_choice", np.uint8, constants.MAX_GREENS),
    ("green_failed", np.uint8, constants.MAX_GREENS),  # In the last step.
    ("n_reached", np.uint8, constants.N_ZONES),
    ("reached", np.uint8, (constants.N_ZONES, MAX_REACHED)),
    # By host, one bit for each of the four lists in `events` that is not empty.
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
    # The hosts in a finite-state agent's memory, in order. By host number: the host's state, and
    # whether the agent knows the host's name.
    ("n_hosts", np.uint8, constants.N_RED),
    ("hosts", np.uint8, (constants.N_RED, constants.N_HOSTS)),
    ("host_state", np.uint8, (constants.N_RED, constants.N_HOSTS)),
    ("named", np.uint8, (constants.N_RED, constants.N_HOSTS)),
    # The host of each blue agent's parent session, the hosts in the order of the agent's sessions,
    # and the id of the session on each host.
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
    # The zones that have a list of blocked zones, in order. Then the lists of blocked zones.
    ("n_blocking", np.uint8),
    ("blocking", np.uint8, constants.N_ZONES),
    ("n_blocked", np.uint8, constants.N_ZONES),
    ("blocked_order", np.uint8, (constants.N_ZONES, constants.N_ZONES)),
    # What the start of the episode draws: octets of addresses, each host's distribution (0 Ubuntu,
    # 1 Kali), and each host's processes with PIDs.
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
    """Return the record of the size `room_for(n_steps)`."""
    size = room_for(n_steps)
    # A step needs at most 16 cells for each step of the episode, if all decoys are on one host.
    n_cells = (64 + 16) * size
    n_ports = 192 * size
    n_sessions = size // 2
    return np.dtype(
        [
            *_EVERY_STEP,
            *_OF_HOSTS,
            # Each red agent's sessions. `sessions_count` is CybORG's count. `ids` are the session
            # ids that the agent learned, in order. `knows_id` says whether it learned an id.
            ("n_sessions", np.uint16, constants.N_RED),
            ("sessions_count", np.int32, constants.N_RED),
            ("sessions", SESSION, (constants.N_RED, n_sessions)),
            ("n_ids", np.uint16, constants.N_RED),
            ("ids", np.uint16, (constants.N_RED, n_sessions)),
            ("knows_id", np.uint8, (constants.N_RED, n_sessions)),
            *_OF_AGENTS,
            *_OF_THE_EPISODE,
            # The cells below n_cells are in use, except the list of free cells at free_cell.
            ("n_cells", np.uint32),
            ("free_cell", np.uint32),
            ("cells", CELL, n_cells),
            # Ephemeral ports: by host, a bit for each port in use. Then a log of all hosts' draws.
            # A host's draws before first_log do not count: a Restore freed their ports.
            ("port_bits", np.uint32, (constants.N_HOSTS, (N_PORTS + 31) // 32)),
            ("first_log", np.uint32, constants.N_HOSTS),
            ("n_log", np.uint32),
            ("log_host", np.uint8, n_ports),
            ("log_port", np.uint16, n_ports),
        ],
        align=True,
    )


STATE = state_for(SIZES[0])
