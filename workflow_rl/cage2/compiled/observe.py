"""Compute what Blue gets at the end of a step: the bits of `BlueTableWrapper`, and the reward."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.jit import compiled, int64
from workflow_rl.cage2.compiled.state import NONE
from workflow_rl.cage2.scenario.actions import BLUE

# A host's activity has two bits. A host's compromise has two bits, too. The lowest bit is first.
NO_ACTIVITY, SCAN, EXPLOITED = 0b00, 0b01, 0b11
UNCOMPROMISED, UNSURE, USER, OWNED = 0b00, 0b01, 0b10, 0b11
# For each kind of Blue's action: the compromise that Blue's table shows after this action on a host
# that looked compromised. -1 means that the action does not change the table.
_LEFT = {"": -1, "unknown": UNSURE, "clean": UNCOMPROMISED}
LEAVES = np.array([_LEFT[kind.leaves] for kind in BLUE.values()])
# The four bits that Blue sees of a host, as the four bytes of one word. So one write shows all four
# bits. The index is activity + 4 * compromise, and byte k is bit k of the index.
_BITS = [bytes((i & 1, (i >> 1) & 1, (i >> 2) & 1, i >> 3)) for i in range(16)]
BYTES = np.array([int.from_bytes(of_index, "little") for of_index in _BITS], np.uint32)


@compiled
def observe(s: Any, t: Any, kind: int, host: int, obs: Any) -> None:
    """Follow `Monitor` and `BlueTableWrapper.observation_change`. obs: see `note_and_show`."""
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
        # In CAGE-1, Blue's table shows a new decoy of Blue's own as a scan by Red.
        obs[decoy_host] = BYTES[(compromise_of(s, decoy_host) << 2) | SCAN]


@compiled
def note_and_show(
    s: Any, t: Any, kind: int, host: int, activity: int, seen_on: int, malware_found: bool, obs: Any
) -> None:
    """Update `s.compromise`, and write obs: uint32, one word for each host.

    kind, host: Blue's action. activity: what Blue saw in this step on the host `seen_on`.
    malware_found: whether Blue's analysis found Red's files."""
    if LEAVES[kind] >= 0 and compromise_of(s, host) != UNCOMPROMISED:
        set_compromise(s, host, LEAVES[kind])
    if activity == EXPLOITED:
        set_compromise(s, seen_on, USER)
    if malware_found:
        set_compromise(s, host, OWNED)
    # One word holds the compromise of 16 hosts. To save time, the first word is read only once.
    compromise, n_hosts = int64(s.compromise[0]), len(t.subnet)
    for i in range(min(n_hosts, 16)):
        obs[i] = BYTES[(compromise & 3) << 2]
        compromise >>= 2
    for i in range(16, n_hosts):
        obs[i] = BYTES[compromise_of(s, i) << 2]
    if activity != NO_ACTIVITY:
        obs[seen_on] = BYTES[(compromise_of(s, seen_on) << 2) | activity]


@compiled
def activity_of(n_events: int, ports: int, reverse_shell_seen: bool, is_new_decoy: bool) -> int:
    """Follow `_interpret_connections`: return the activity that Blue sees on a host.

    n_events: the number of connections to the host. ports: the mask of their ports. is_new_decoy:
    whether Blue set up a decoy on the host in this step. CybORG counts the decoy as a connection.
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
    """Return a host's compromise as Blue's table shows it."""
    return (int64(s.compromise[host >> 4]) >> (2 * (host & 15))) & 3


@compiled
def set_compromise(s: Any, host: int, compromise: int) -> None:
    """Set a host's compromise, which stays until it is set again, as in CybORG's `blue_info`."""
    shift = 2 * (host & 15)
    others = int64(s.compromise[host >> 4]) & ~(3 << shift)
    s.compromise[host >> 4] = others | (compromise << shift)


@compiled
def reward(s: Any, t: Any, kind: int) -> float:
    """Follow `HybridAvailabilityConfidentialityRewardCalculator`, and add the action's cost.

    CybORG sums floats and rounds the sum to tenths. A sum of whole tenths gives the same number. As
    in CybORG, a reward of zero is 0.0 and never -0.0."""
    tenths = int(tables.COST[kind])
    for service in range(len(s.ot_running)):
        if not s.ot_running[service]:
            tenths += t.worth_of_ot_service[service]
    # CybORG counts Red's own host as owned from the start. `is_owned` leaves this host out.
    owned = s.is_owned | (int64(1) << int64(t.red_host))
    for i in range(len(tables.WORTHS)):
        tenths += count_bits(owned & t.worth[i]) * tables.WORTHS[i]
    return -tenths / 10.0
