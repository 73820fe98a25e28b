"""Red's actions chosen from outside: a step in two halves, and what Red has observed of it.

`scenario2.RED_ACTION_NAMES` numbers Red's actions. CybORG refuses an action on what Red does not
know yet: it fails, and changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.blue_actions import act_as_blue
from workflow_rl.cage2.compiled.episode import tell
from workflow_rl.cage2.compiled.fetching import fetch_ahead
from workflow_rl.cage2.compiled.jit import compiled, entry_point
from workflow_rl.cage2.compiled.observe import observe, reward
from workflow_rl.cage2.compiled.red_actions import act_as_red
from workflow_rl.cage2.compiled.state import NO_ERROR
from workflow_rl.cage2.scenario2 import (
    FACTS_OF_A_HOST,
    HOSTS,
    RED_ACTION_NAMES,
    RED_ACTIONS,
    RED_AGENTS,
    RED_OBS_SIZE,
    SUBNETS,
)

OUTSIDE = len(RED_AGENTS)
"""The first number of a `red_agent` whose actions come from outside."""
NOTHING = 255
"""The action of an episode in which Red has not acted."""
N_RED_ACTIONS = len(RED_ACTION_NAMES)
ROW_SIZE = RED_OBS_SIZE + N_RED_ACTIONS


def _target(name: str) -> int:
    target = name.partition(" ")[2]
    return (HOSTS if target in HOSTS else SUBNETS).index(target) if target else 0


def _fact_needed(name: str) -> int:
    """Return which number of an observation tells whether the action of this name is possible."""
    kind, _, target = name.partition(" ")
    if target in SUBNETS:
        return SUBNETS.index(target)
    fact = {"DiscoverNetworkServices": "address known", "ExploitRemoteService": "ports known"}
    in_row = FACTS_OF_A_HOST.index(fact.get(kind, "name known"))
    return len(SUBNETS) + HOSTS.index(target) * len(FACTS_OF_A_HOST) + in_row


FACT_NEEDED = np.array([_fact_needed(name) for name in RED_ACTION_NAMES[1:]])
"""For each action but Sleep, the number of an observation that tells whether it is possible."""
ACTION_KIND = np.array([RED_ACTIONS.index(name.partition(" ")[0]) for name in RED_ACTION_NAMES])
ACTION_TARGET = np.array([_target(name) for name in RED_ACTION_NAMES])
assert SUBNETS == tables.SUBNETS


def notes_for(states: NDArray[Any]) -> NDArray[Any]:
    """Return what is kept `[N]` of each network besides its record, if Red is outside.

    entered, owned: masks of the hosts on which Red thinks to have a session, and one of root or
    SYSTEM. action: Red's last one, or NOTHING. n_sessions, ident: how many sessions Red has ever
    had, and the number of the one that each process belongs to.
    """
    (n_processes,) = states.dtype["processes"].shape
    fields = [
        ("entered", np.uint16),
        ("owned", np.uint16),
        ("action", np.uint8),
        ("n_sessions", np.uint16),
        ("ident", np.uint16, n_processes),
    ]
    return np.zeros(len(states), np.dtype(fields, align=True))


@entry_point
def begin_reds(states: Any, notes: Any, chosen: Any, rows: Any) -> None:
    """Begin the notes of the chosen envs, and show them. See `step_reds`."""
    for i in range(len(states)):
        if chosen[i]:
            # Red starts with a session of SYSTEM's.
            notes[i].entered = 1 << tables.RED_HOST
            notes[i].owned = 1 << tables.RED_HOST
            notes[i].action = NOTHING
            notes[i].n_sessions = 1
            show(states[i], notes[i], rows[i])
            show_success(states[i], rows[i])


@entry_point
def step_blues(states: Any, chosen: Any, actions: Any) -> None:
    """Play Blue's half of a step in the chosen envs. All arrays are `[N]`."""
    for i in range(len(states)):
        if chosen[i] and states[i].error == NO_ERROR:
            blue_half(states[i], actions[i])


@entry_point
def step_reds(
    states: Any,
    notes: Any,
    chosen: Any,
    actions: Any,
    red_actions: Any,
    with_blue: bool,
    obs: Any,
    rewards: Any,
    facts: Any,
    rows: Any,
) -> int:
    """Play the rest of a step in the chosen envs, and Blue's half before it if `with_blue`.

    Returns the index of an env that cannot go on, or -1. obs: uint32 `[N, 13]`. facts: int8
    `[N, 5]`. rows: uint8 `[N, ROW_SIZE]`, what Red sees: its observation, and the mask of its
    actions. All other arrays are `[N]`.
    """
    failed = -1
    for i in range(len(states)):
        fetch_ahead(states, i)
        if not chosen[i]:
            continue
        s, action = states[i], actions[i]
        if s.error == NO_ERROR:
            if with_blue:
                blue_half(s, action)
            before = all_known(s, notes[i])
            red_half(s, notes[i], red_actions[i])
            kind, host = int(tables.ACTION_KIND[action]), int(tables.ACTION_HOST[action])
            observe(s, kind, host, obs[i])
            rewards[i] = reward(s, kind)
            tell(s, facts[i])
            if s.red_kind == tables.REFUSED:
                facts[i, 1], facts[i, 2] = -1, -1
            # What Red knows seldom changes.
            if all_known(s, notes[i]) != before:
                show(s, notes[i], rows[i])
            show_success(s, rows[i])
        if s.error != NO_ERROR:
            failed = i
    return failed


@compiled
def blue_half(s: Any, action: int) -> None:
    """Play Blue's action of this index."""
    act_as_blue(s, int(tables.ACTION_KIND[action]), int(tables.ACTION_HOST[action]))


@compiled
def red_half(s: Any, notes: Any, action: int) -> None:
    """Play Red's action of this index, and note what it shows Red."""
    kind, target = int(ACTION_KIND[action]), int(ACTION_TARGET[action])
    known = int(s.known_addresses)
    if kind == tables.DISCOVER_SYSTEMS:
        known = int(s.known_subnets)
    elif kind == tables.ESCALATE or kind == tables.IMPACT:
        known = int(s.known_hostnames)
    is_possible = kind == tables.RED_SLEEP or known >> target & 1 != 0
    s.red_kind = kind if is_possible else tables.REFUSED
    s.red_target = target
    notes.action = action
    act_as_red(s)
    if not is_possible:
        s.red_success = tables.FALSE
    succeeded = s.red_success == tables.TRUE
    bit = 1 << target
    if kind == tables.EXPLOIT and succeeded:
        # Red is not told whose session it is.
        notes.entered |= bit
        notes.ident[s.last_process[target]] = notes.n_sessions
        notes.n_sessions += 1
    elif kind == tables.ESCALATE or kind == tables.IMPACT:
        notes.entered = int(notes.entered) & ~bit | (bit if succeeded else 0)
        notes.owned = int(notes.owned) & ~bit | (bit if succeeded else 0)


@compiled
def all_known(s: Any, notes: Any) -> tuple[int, int]:
    """Return what `show` shows, as numbers."""
    of_hosts = s.known_addresses | s.known_hostnames << 16 | s.scanned_by_session << 32
    return of_hosts | s.known_subnets << 48, notes.entered | notes.owned << 16


@compiled
def show_success(s: Any, row: Any) -> None:
    """Write whether Red's last action succeeded, and whether it failed."""
    row[RED_OBS_SIZE - 2] = s.red_success == tables.TRUE
    row[RED_OBS_SIZE - 1] = s.red_success == tables.FALSE


@compiled
def show(s: Any, notes: Any, row: Any) -> None:
    """Write what Red knows, and what it may do, into uint8 `[ROW_SIZE]`."""
    for subnet in range(tables.N_SUBNETS):
        row[subnet] = s.known_subnets >> subnet & 1
    n = tables.N_SUBNETS
    for host in range(tables.N_HOSTS):
        row[n] = s.known_addresses >> host & 1
        row[n + 1] = s.known_hostnames >> host & 1
        row[n + 2] = s.scanned_by_session >> host & 1
        row[n + 3] = notes.entered >> host & 1
        row[n + 4] = notes.owned >> host & 1
        n += len(FACTS_OF_A_HOST)
    row[RED_OBS_SIZE] = 1
    for i in range(len(FACT_NEEDED)):
        row[RED_OBS_SIZE + 1 + i] = row[FACT_NEEDED[i]]
