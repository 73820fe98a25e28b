"""What Blue gets at the end of a step: the bits of `BlueTableWrapper`, and the reward."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.jit import compiled, int64
from workflow_rl.cage2.compiled.state import NONE
from workflow_rl.cage2.scenario.actions import BLUE

# A host's activity and its compromise have two bits each. The first bit is the lowest.
NO_ACTIVITY, SCAN, EXPLOITED = 0b00, 0b01, 0b11
UNCOMPROMISED, UNSURE, USER, OWNED = 0b00, 0b01, 0b10, 0b11
# By the kind of Blue's action: what Blue's table shows afterwards of a host that looked
# compromised; -1: no change.
_LEFT = {"": -1, "unknown": UNSURE, "clean": UNCOMPROMISED}
LEAVES = np.array([_LEFT[kind.leaves] for kind in BLUE.values()])
# Indexed by activity + 4 * compromise: the four bytes of a host, as one word.
BYTES = np.array(
    [
        int.from_bytes(bytes((a & 1, a >> 1, c & 1, c >> 1)), "little")
        for c in range(4)
        for a in range(4)
    ],
    np.uint32,
)


@compiled
def observe(s: Any, t: Any, kind: int, host: int, obs: Any) -> None:
    """`Monitor` and `BlueTableWrapper.observation_change`: obs uint32, a word a host."""
    decoy_host = NONE
    if tables.DECEIVES[kind] and s.blue_success == tables.TRUE:
        decoy_host = host
    activity = NO_ACTIVITY
    if s.n_events > 0:
        activity = activity_of(
            int(s.n_events), int(s.event_ports), s.reverse_shell_seen, decoy_host == s.event_host
        )
    seen_on = int(s.event_host)
    note_and_show(s, t, kind, host, activity, seen_on, s.malware_found, obs)
    if t.is_cage1 and decoy_host != NONE and (decoy_host != seen_on or activity == NO_ACTIVITY):
        # CAGE-1's Blue takes its own decoy for a scan.
        obs[decoy_host] = BYTES[compromise_of(s, decoy_host) << 2 | SCAN]


@compiled
def note_and_show(
    s: Any, t: Any, kind: int, host: int, activity: int, seen_on: int, malware_found: bool, obs: Any
) -> None:
    """Update `s.compromise`, and write the bits, obs uint32, a word a host.

    kind, host: Blue's action. activity, seen_on: the activity that Blue saw, and its host.
    malware_found: whether Blue's analysis found Red's files.
    """
    if LEAVES[kind] >= 0 and compromise_of(s, host) != UNCOMPROMISED:
        set_compromise(s, host, LEAVES[kind])
    if activity == EXPLOITED:
        set_compromise(s, seen_on, USER)
    if malware_found:
        set_compromise(s, host, OWNED)
    # One word holds 16 hosts; of a small network it is read once.
    compromise, n_hosts = int64(s.compromise[0]), len(t.subnet)
    for i in range(min(n_hosts, 16)):
        obs[i] = BYTES[(compromise & 3) << 2]
        compromise >>= 2
    for i in range(16, n_hosts):
        obs[i] = BYTES[compromise_of(s, i) << 2]
    if activity != NO_ACTIVITY:
        obs[seen_on] = BYTES[compromise_of(s, seen_on) << 2 | activity]


@compiled
def activity_of(n_events: int, ports: int, reverse_shell_seen: bool, is_new_decoy: bool) -> int:
    """`_interpret_connections`: return the activity that Blue sees on a host.

    n_events, ports: the connections there, and the mask of their ports. is_new_decoy: whether Blue
    set up a decoy there; a decoy alone shows no activity.
    """
    n_anomalies = n_events + is_new_decoy
    n_ports = count_bits(ports)
    if n_anomalies >= 3 and n_ports >= 3:
        return SCAN
    if reverse_shell_seen or (n_anomalies >= 3 and n_ports == 1):
        return EXPLOITED
    return NO_ACTIVITY if is_new_decoy else SCAN


@compiled
def count_bits(mask: int) -> int:
    n = 0
    while mask:
        mask &= mask - 1
        n += 1
    return n


@compiled
def compromise_of(s: Any, host: int) -> int:
    """Return the compromise of a host that Blue's table shows."""
    return int64(s.compromise[host >> 4]) >> 2 * (host & 15) & 3


@compiled
def set_compromise(s: Any, host: int, compromise: int) -> None:
    """Set the compromise of a host, which is kept from step to step as in `blue_info`."""
    shift = 2 * (host & 15)
    others = int64(s.compromise[host >> 4]) & ~(3 << shift)
    s.compromise[host >> 4] = others | compromise << shift


@compiled
def reward(s: Any, t: Any, kind: int) -> float:
    """`HybridAvailabilityConfidentialityRewardCalculator` and the cost of Blue's action.

    CybORG sums floats and rounds to tenths. Counting tenths gives the same number; as in CybORG,
    0.0 is never negative.
    """
    tenths = int(tables.COST[kind])
    for service in range(len(s.ot_running)):
        if not s.ot_running[service]:
            tenths += t.worth_of_ot_service[service]
    # Red's host is Red's from the start.
    owned = s.is_owned | int64(1) << int64(t.red_host)
    for i in range(len(tables.WORTHS)):
        tenths += count_bits(owned & t.worth[i]) * tables.WORTHS[i]
    return -tenths / 10.0
