"""Steps in which Red's actions come from outside compiled code, and Red's observations.

`Scenario.red_action_names` numbers Red's actions. If Red does not know an action's target yet,
CybORG refuses the action: the action fails and changes nothing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.blue_actions import act_as_blue
from workflow_rl.cage2.compiled.episode import tell
from workflow_rl.cage2.compiled.fetching import fetch_ahead
from workflow_rl.cage2.compiled.jit import compiled, entry_point, int64, tables_at
from workflow_rl.cage2.compiled.observe import observe, reward
from workflow_rl.cage2.compiled.red_actions import act_as_red
from workflow_rl.cage2.compiled.state import NO_ERROR
from workflow_rl.cage2.scenario2 import RED_AGENTS

OUTSIDE = len(RED_AGENTS)
"""The first number of a `red_agent` whose actions come from outside."""
NOTHING = 65535
"""The value of `action` in Red's notes before Red has acted."""


def notes_for(states: NDArray[Any], capacity: tables.Capacity) -> NDArray[Any]:
    """Return notes `[N]`: what a Red from outside compiled code knows beyond the network's record.

    entered: the mask of the hosts on which Red believes it has a session. owned: the mask of the
    hosts on which Red believes it is root or SYSTEM. action: Red's last action, or NOTHING.
    n_sessions: how many sessions Red ever had. ident: for each process, the number of its session.
    """
    (n_processes,) = states.dtype["processes"].shape
    fields = [
        ("entered", capacity.mask),
        ("owned", capacity.mask),
        ("action", np.uint16),
        ("n_sessions", np.uint16),
        ("ident", np.uint16, n_processes),
    ]
    return np.zeros(len(states), np.dtype(fields, align=True))


@entry_point
def begin_reds(states: Any, networks: Any, notes: Any, chosen: Any, rows: Any) -> None:
    """Set the notes of the chosen envs to an episode's start, and write `rows`: see `step_reds`."""
    for i in range(len(states)):
        if chosen[i]:
            t = tables_at(states, networks, states[i].network)
            # Red starts with a session of root or SYSTEM.
            notes[i].entered = 1 << int64(t.red_host)
            notes[i].owned = 1 << int64(t.red_host)
            notes[i].action = NOTHING
            notes[i].n_sessions = 1
            show(states[i], t, notes[i], rows[i])
            show_success(states[i], t, rows[i])


@entry_point
def step_blues(states: Any, networks: Any, chosen: Any, actions: Any) -> None:
    """Play Blue's action in the chosen envs. All arrays are `[N]`."""
    for i in range(len(states)):
        if chosen[i] and states[i].error == NO_ERROR:
            t = tables_at(states, networks, states[i].network)
            blue_half(states[i], t, actions[i])


@entry_point
def step_reds(
    states: Any,
    networks: Any,
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
    """Play Red's action and the rest of a step in the chosen envs. Return the index of an env that
    cannot go on, or -1.

    with_blue: whether to play Blue's action first. networks, obs, facts: see `step_envs`. rows:
    uint8, for each env Red's observation, then the mask of Red's actions. Other arrays are `[N]`.
    """
    failed = -1
    for i in range(len(states)):
        fetch_ahead(states, i)
        if not chosen[i]:
            continue
        s, action = states[i], actions[i]
        t = tables_at(states, networks, states[i].network)
        if s.error == NO_ERROR:
            if with_blue:
                blue_half(s, t, action)
            before = all_known(s, notes[i])
            red_half(s, t, notes[i], red_actions[i])
            kind, host = int64(t.action_kind[action]), int64(t.action_host[action])
            observe(s, t, kind, host, obs[i])
            rewards[i] = reward(s, t, kind)
            tell(s, t, facts[i])
            # What Red knows seldom changes, so this saves time.
            if all_known(s, notes[i]) != before:
                show(s, t, notes[i], rows[i])
            show_success(s, t, rows[i])
        if s.error != NO_ERROR:
            failed = i
    return failed


@compiled
def blue_half(s: Any, t: Any, action: int) -> None:
    act_as_blue(s, t, int64(t.action_kind[action]), int64(t.action_host[action]))


@compiled
def red_half(s: Any, t: Any, notes: Any, action: int) -> None:
    """Play Red's action, by index, and note what Red learns from it."""
    kind = int64(t.red_action_kind[action])
    target = int64(t.red_action_target[action])
    known = int64(s.known_addresses)
    if kind == tables.DISCOVER_SYSTEMS:
        known = int64(s.known_subnets)
    elif kind == tables.ESCALATE or kind == tables.IMPACT:
        known = int64(s.known_hostnames)
    is_possible = kind == tables.RED_SLEEP or ((known >> target) & 1) != 0
    s.red_kind = kind if is_possible else tables.REFUSED
    s.red_target = target
    notes.action = action
    act_as_red(s, t)
    succeeded = s.red_success == tables.TRUE
    bit = 1 << target
    if kind == tables.EXPLOIT and succeeded:
        # Red does not learn the user of the new session, so `owned` does not change.
        notes.entered |= bit
        notes.ident[s.last_process[target]] = notes.n_sessions
        notes.n_sessions += 1
    elif kind == tables.ESCALATE or kind == tables.IMPACT:
        notes.entered &= ~bit
        notes.owned &= ~bit
        if succeeded:
            notes.entered |= bit
            notes.owned |= bit


@compiled
def all_known(s: Any, notes: Any) -> tuple[int, int, int, int, int, int]:
    """Return the masks that `show` writes as bits."""
    return (
        s.known_addresses,
        s.known_hostnames,
        s.scanned_by_session,
        s.known_subnets,
        notes.entered,
        notes.owned,
    )


@compiled
def show_success(s: Any, t: Any, row: Any) -> None:
    """Write two bits: Red's last action succeeded, and Red's last action failed."""
    row[t.red_obs_size - 2] = s.red_success == tables.TRUE
    row[t.red_obs_size - 1] = s.red_success == tables.FALSE


@compiled
def show(s: Any, t: Any, notes: Any, row: Any) -> None:
    """Write what Red knows, and which actions are possible, into a row: see `step_reds`."""
    for subnet in range(t.n_subnets):
        row[subnet] = (s.known_subnets >> subnet) & 1
    column = t.n_subnets
    # The columns are in the order of `scenario2.FACTS_OF_A_HOST`.
    for host in range(t.n_hosts):
        row[column] = (s.known_addresses >> host) & 1
        row[column + 1] = (s.known_hostnames >> host) & 1
        row[column + 2] = (s.scanned_by_session >> host) & 1
        row[column + 3] = (notes.entered >> host) & 1
        row[column + 4] = (notes.owned >> host) & 1
        column += tables.N_FACTS_OF_A_HOST
    # The first action, Sleep, is always possible.
    row[t.red_obs_size] = 1
    for i in range(1, t.n_red_actions):
        row[t.red_obs_size + i] = row[t.fact_needed[i]]
