"""What Blue remembers of an episode: its own actions and what it saw, and nothing else.

Three things that the 52 bits of a step do not show: the decoys in place, those that Red's scan of
each host found (Red exploits what it found then, and scans a host only once), and what Red has done
so far if it is RedMeander, whose program is followed on what Blue sees. Against another red agent
the program soon does not fit, and the memory says so.

Where what was seen has two explanations, the likelier is remembered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.jit import compiled, entry_point
from workflow_rl.cage2.compiled.meander import act_as_meander, learn_as_meander, meanders_options
from workflow_rl.cage2.compiled.state import NO_ERROR, NONE
from workflow_rl.cage2.compiled.tables import (
    ACTION_HOST,
    ACTION_KIND,
    BRUTEFORCEABLE,
    DECOY_FITS,
    DECOY_FREE_PORT,
    DECOY_PORT,
    DETECTION_RATE,
    DISCOVER_SERVICES,
    DISCOVER_SYSTEMS,
    ENTERPRISE,
    ESCALATE,
    EXPLOIT,
    EXPLORED_ADDRESSES,
    EXPLORED_SUBNETS,
    FALSE,
    FIRST_DECOY,
    GUARDED,
    LAST_DECOY,
    LISTENING_PORTS,
    N_DECOYS,
    N_EXPLOITS,
    N_HOSTS,
    NOT_VULNERABLE,
    ODDS_OF_TOP_CHOICE,
    PREFERENCE,
    RED_HOST,
    RED_KINDS,
    RED_SLEEP,
    REMOVE,
    RESTORE,
    SSH_BRUTE_FORCE,
    SUBNET,
    SUBNET_MASK,
    TRUE,
    UNKNOWN,
    VULNERABILITY,
    VULNERABLE_AS_ROOT,
)

WORTH_A_DECOY = np.array(
    [
        (host, decoy)
        for host in range(N_HOSTS)
        for decoy in range(N_DECOYS)
        if DECOY_FITS[host, decoy] and host != RED_HOST
    ]
)
"""Hosts and decoys that Blue may want there: Red is on its own host anyway. [K, 2]."""

# What an exploit comes to.
FAILED, SHELL_AS_USER, SHELL_AS_ROOT, SSH_SESSION = range(4)
N_OUTCOMES = 4

MISFITS_SHOWN = (1, 2, 4)
N_MASKS_SHOWN = 8
N_SHOWN = (
    4 * N_HOSTS
    + 2 * len(WORTH_A_DECOY)
    + N_MASKS_SHOWN * N_HOSTS
    + len(RED_KINDS)
    + len(MISFITS_SHOWN)
)

MEMORY = np.dtype(
    [
        ("error", np.uint8),
        # What RedMeander has done last and knows, as in `state.STATE`.
        ("red_kind", np.uint8),
        ("red_target", np.uint8),
        ("red_success", np.uint8),
        ("meander_subnets", np.uint8),
        ("meander_scanned", np.uint16),
        ("meander_exploited", np.uint16),
        ("meander_escalated", np.uint16),
        ("meander_mapped", np.uint16),
        ("meander_last_host", np.uint8),
        ("meander_last_address", np.uint8),
        ("known_subnets", np.uint8),
        ("known_addresses", np.uint16),
        ("known_hostnames", np.uint16),
        # Masks of hosts: Red has a session there, one that Remove would end, a privileged one.
        ("sessions", np.uint16),
        ("removable", np.uint16),
        ("owned", np.uint16),
        # What RedMeander does next: kind of action, and the mask of its possible targets.
        ("next_kind", np.uint8),
        ("next_targets", np.uint16),
        # Steps that RedMeander's program does not explain.
        ("n_misfits", np.uint8),
        # Masks of decoys.
        ("decoys", np.uint8, N_HOSTS),
        ("decoys_when_scanned", np.uint8, N_HOSTS),
    ],
    align=True,
)


@compiled
def begin_memory(m: Any) -> None:
    """As an episode begins."""
    m.error = NO_ERROR
    m.red_kind, m.red_target, m.red_success = RED_SLEEP, 0, UNKNOWN
    m.meander_subnets = 0
    m.meander_scanned = 0
    m.meander_exploited = 0
    m.meander_escalated = 0
    m.meander_mapped = 0
    m.meander_last_host = NONE
    m.meander_last_address = NONE
    m.known_subnets = 1 << SUBNET[RED_HOST]
    m.known_addresses = 1 << RED_HOST
    m.known_hostnames = 1 << RED_HOST
    m.sessions = 0
    m.removable = 0
    m.owned = 0
    m.n_misfits = 0
    m.decoys[:] = 0
    m.decoys_when_scanned[:] = 0
    look_ahead(m)


@compiled
def remember(m: Any, action: int, obs: Any) -> None:
    """A step: Blue's action, and the bits that it led to, uint8 `[52]`."""
    kind, host = int(ACTION_KIND[action]), int(ACTION_HOST[action])
    remember_own_action(m, kind, host)
    seen, exploited = NONE, False
    for i in range(N_HOSTS):
        if obs[4 * i]:
            seen, exploited = i, obs[4 * i + 1] == 1
        if obs[4 * i + 2] and obs[4 * i + 3]:
            # An analysis found Red's files there.
            m.sessions |= 1 << i
            m.owned |= 1 << i
    new_decoy_host = host if FIRST_DECOY <= kind <= LAST_DECOY else NONE
    follow_meander(m, seen, exploited, new_decoy_host)
    look_ahead(m)


@compiled
def remember_own_action(m: Any, kind: int, host: int) -> None:
    """What Blue's action changes."""
    bit = 1 << host
    if FIRST_DECOY <= kind <= LAST_DECOY:
        decoy = kind - FIRST_DECOY
        in_use = decoy_ports(m.decoys[host]) >> DECOY_FREE_PORT[decoy] & 1
        if DECOY_FITS[host, decoy] and not in_use:
            m.decoys[host] |= 1 << decoy
    elif kind == RESTORE:
        m.decoys[host] = 0
        m.sessions &= ~bit
        m.removable &= ~bit
        m.owned &= ~bit
    elif kind == REMOVE and m.removable & ~m.owned & bit:
        m.sessions &= ~bit
        m.removable &= ~bit


@compiled
def follow_meander(m: Any, seen: int, exploited: bool, new_decoy_host: int) -> None:
    """RedMeander's step, of which Blue saw something on the host `seen`, or on NONE."""
    learn_as_meander(m)
    kind, targets = meanders_options(m)
    is_shown = kind in (DISCOVER_SERVICES, EXPLOIT)
    is_seen = is_shown and seen != NONE and targets >> seen & 1 != 0
    if seen != NONE and not is_seen:
        m.n_misfits = min(m.n_misfits + 1, 255)
    if kind == RED_SLEEP:
        return
    target = seen if is_seen else likeliest(m, kind, targets)
    act_as_meander(m, int(kind), target)
    bit = 1 << target
    succeeded = True
    if kind == DISCOVER_SYSTEMS:
        succeeded = is_within_reach(m, target)
        if succeeded:
            m.known_addresses |= SUBNET_MASK[target]
            m.known_subnets |= bit
    elif kind == DISCOVER_SERVICES:
        m.decoys_when_scanned[target] = m.decoys[target]
    elif kind == EXPLOIT:
        outcome = FAILED
        if is_seen:
            outcome = likeliest_outcome(m, target, exploited, new_decoy_host == target)
        succeeded = outcome != FAILED
        if succeeded:
            m.sessions |= bit
            m.known_hostnames |= bit
        if outcome == SHELL_AS_ROOT:
            m.owned |= bit
        if outcome == SHELL_AS_USER and exploited:
            m.removable |= bit
    else:
        succeeded = target == RED_HOST or m.sessions & bit != 0
        if succeeded and kind == ESCALATE:
            m.owned |= bit & ~(1 << RED_HOST)
            m.known_addresses |= EXPLORED_ADDRESSES[target]
            m.known_subnets |= EXPLORED_SUBNETS[target]
    m.red_success = TRUE if succeeded else FALSE


@compiled
def is_within_reach(m: Any, subnet: int) -> bool:
    """As `red_actions.is_reachable`."""
    return not GUARDED[subnet] or m.sessions & ENTERPRISE != 0


@compiled
def likeliest(m: Any, kind: Any, targets: Any) -> int:
    """Of several targets of an action that shows nothing."""
    preferred = np.int64(0)  # Signed, as the targets are.
    for host in range(N_HOSTS):
        if kind == ESCALATE:
            preferred |= (m.sessions >> host & 1) << host
        elif kind != DISCOVER_SYSTEMS and not is_within_reach(m, SUBNET[host]):
            preferred |= 1 << host
    if targets & preferred:
        targets &= preferred
    host = 0
    while not targets >> host & 1:
        host += 1
    return host


@compiled
def likeliest_outcome(m: Any, host: int, exploited: bool, has_new_decoy: bool) -> int:
    """What an exploit came to that Blue saw as one, or else as a scan.

    By the odds of Red's choice among what it found there, and of what each choice looks like.
    """
    found = LISTENING_PORTS[host] | decoy_ports(m.decoys_when_scanned[host])
    in_place = decoy_ports(m.decoys[host])
    n_options = 0
    for exploit in range(N_EXPLOITS):
        n_options += found >> exploit & 1
    odds = np.zeros(N_OUTCOMES)
    is_top = True
    for i in range(N_EXPLOITS):
        exploit = PREFERENCE[i]
        if not found >> exploit & 1:
            continue
        chance = ODDS_OF_TOP_CHOICE if is_top else (1 - ODDS_OF_TOP_CHOICE) / (n_options - 1)
        is_top = False
        vulnerability = VULNERABILITY[host, exploit]
        outcome = FAILED
        if vulnerability == NOT_VULNERABLE:
            if not in_place >> exploit & 1:
                continue  # That shows nothing.
        elif exploit != SSH_BRUTE_FORCE:
            outcome = SHELL_AS_ROOT if vulnerability == VULNERABLE_AS_ROOT else SHELL_AS_USER
        elif BRUTEFORCEABLE[host]:
            outcome = SSH_SESSION
        if exploit == SSH_BRUTE_FORCE:
            # So many attempts look like an exploit, whatever they come to.
            chance *= 1.0 if exploited else 0.0
        elif outcome == FAILED:
            # A decoy that is attacked looks like a scan, unless another is set up just then.
            chance *= 1.0 if exploited == has_new_decoy else 0.0
        else:
            chance *= DETECTION_RATE if exploited else 1 - DETECTION_RATE
        odds[outcome] += chance
    return int(odds.argmax())


@compiled
def decoy_ports(decoys: int) -> int:
    """The mask of ports of a mask of decoys."""
    ports = 0
    for decoy in range(N_DECOYS):
        if decoys >> decoy & 1:
            ports |= 1 << DECOY_PORT[decoy]
    return ports


@compiled
def look_ahead(m: Any) -> None:
    """What RedMeander does next if Blue does nothing: it learns first, which is undone."""
    exploited, escalated = m.meander_exploited, m.meander_escalated
    mapped, error = m.meander_mapped, m.error
    last_host, last_address = m.meander_last_host, m.meander_last_address
    learn_as_meander(m)
    m.next_kind, m.next_targets = meanders_options(m)
    m.meander_exploited, m.meander_escalated = exploited, escalated
    m.meander_mapped, m.error = mapped, error
    m.meander_last_host, m.meander_last_address = last_host, last_address


@compiled
def show_memory(m: Any, obs: Any, shown: Any) -> None:
    """All that Blue acts on, uint8 `[N_SHOWN]`: obs, then what it remembers, as bits."""
    n = len(obs)
    shown[:n] = obs
    for i in range(len(WORTH_A_DECOY)):
        host, decoy = WORTH_A_DECOY[i]
        shown[n] = m.decoys[host] >> decoy & 1
        shown[n + 1] = m.decoys_when_scanned[host] >> decoy & 1
        n += 2
    for hosts in (
        m.sessions,
        m.owned,
        m.known_addresses,
        m.meander_scanned,
        m.meander_exploited,
        m.meander_escalated,
        m.meander_mapped,
        m.next_targets,
    ):
        for host in range(N_HOSTS):
            shown[n + host] = hosts >> host & 1
        n += N_HOSTS
    for kind in range(len(RED_KINDS)):
        shown[n + kind] = m.next_kind == kind
    n += len(RED_KINDS)
    for i in range(len(MISFITS_SHOWN)):
        shown[n + i] = m.n_misfits >= MISFITS_SHOWN[i]


@entry_point
def begin_memories(memories: Any, chosen: Any, obs: Any, shown: Any) -> None:
    """Episodes begin in the M chosen of N memories. obs `[M, 52]`, shown `[M, N_SHOWN]`, uint8."""
    for i in range(len(chosen)):
        begin_memory(memories[chosen[i]])
        show_memory(memories[chosen[i]], obs[i], shown[i])


@entry_point
def remember_steps(memories: Any, chosen: Any, actions: Any, obs: Any, shown: Any) -> None:
    """A step in the M chosen of N memories: actions int64 `[M]`, and obs that it led to."""
    for i in range(len(chosen)):
        remember(memories[chosen[i]], actions[i], obs[i])
        show_memory(memories[chosen[i]], obs[i], shown[i])
