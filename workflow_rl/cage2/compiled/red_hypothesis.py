"""A hypothesis `h` says which red agent plays, what Red holds, and what Red knows.

Actions of Blue and Red change a hypothesis, exactly by the red agents' programs and by the odds of
their exploits. A hypothesis leaves out only facts that Blue cannot use: addresses, PIDs and
ephemeral ports."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import red_agents, tables
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.jit import compiled, int64
from workflow_rl.cage2.compiled.observe import NO_ACTIVITY, activity_of, count_bits
from workflow_rl.cage2.compiled.state import NO_ERROR, NONE, red_fields
from workflow_rl.cage2.scenario.actions import DECOYS

HYPOTHESIS = np.dtype(
    [
        # RedMeander's program sets `error`. No function of this file reads it.
        ("error", np.uint8),
        ("n_events", np.uint8),
        *red_fields(SCENARIO2.capacity),
        # Two masks of hosts. sessions: Red has sessions there. removable: monitoring noticed all
        # these sessions, as a user's. Remove ends them, unless Red owns the host by then.
        ("sessions", np.uint16),
        ("removable", np.uint16),
        # A mask of the hosts on which Red has a session in a decoy's sandbox (only in CAGE-1).
        ("sandboxed", np.uint16),
        # Masks of decoys on each host. CAGE-1 does not tell Blue which kinds its decoys are. When
        # Red scans or exploits the host, a hypothesis branches into the possible kinds, `drawn`.
        ("decoys_when_scanned", np.uint8, len(SCENARIO2.hosts)),
        ("drawn", np.uint8, len(SCENARIO2.hosts)),
    ],
    align=True,
)

# The outcomes of Red's action. Only an exploit has one of the last six outcomes. "Unseen" means
# that monitoring does not notice the new session.
FAILED, DONE, SHELL, UNSEEN_SHELL, ROOT_SHELL, UNSEEN_ROOT_SHELL, SSH_SESSION, SANDBOX = range(8)
N_OUTCOMES = 8

FIRST_HOSTS = sum(1 << host for host in SCENARIO2.of["first_hosts"].tolist())
# For each decoy of Misinform: the kind of Scenario 2's decoy that opens the same port.
_PORTS_OF_DECOYS = tables.DECOY_PORT[: tables.N_DECOYS].tolist()
_PORTS_OF_MISINFORM = tables.DECOY_PORT[tables.MISINFORM_KINDS].tolist()
SAME_PORT_KINDS = np.array([_PORTS_OF_DECOYS.index(port) for port in _PORTS_OF_MISINFORM])
# Pairs of decoys between which Red makes no difference at first: see `symmetry_weight`.
_ALIKE = (("DecoyTomcat", "DecoyApache"), ("DecoySmss", "DecoySvchost"))
PAIRS = np.array([[list(DECOYS).index(name) for name in pair] for pair in _ALIKE])
# The mask of the ports on which a decoy of CAGE-1 gives an exploit a session in a sandbox.
SANDBOXES = sum(
    1 << int(tables.DECOY_PORT[kind]) for kind in tables.MISINFORM_KINDS if kind < tables.N_DECOYS
)


@compiled
def begin_hypothesis(h: Any, t: Any, red_agent: int) -> None:
    h.error = NO_ERROR
    red_agents.begin_red(h, t, red_agent)
    h.sessions = 0
    h.removable = 0
    h.sandboxed = 0
    h.decoys_when_scanned[:] = 0
    h.drawn[:] = 0


@compiled
def is_same(a: Any, b: Any) -> bool:
    """Return whether two hypotheses agree in every field on which a later step can depend.

    RedMeander learns from its last action at once, so this action's targets are not compared."""
    if (
        a.red_agent != b.red_agent
        or a.sessions != b.sessions
        or a.is_owned != b.is_owned
        or a.removable != b.removable
        or a.sandboxed != b.sandboxed
        or a.has_malware != b.has_malware
        or a.red_success != b.red_success
        or a.n_events != b.n_events
        or a.b_line_action != b.b_line_action
        or a.b_line_made != b.b_line_made
        or a.b_line_host != b.b_line_host
        or a.meander_subnets != b.meander_subnets
        or a.meander_scanned != b.meander_scanned
        or a.meander_exploited != b.meander_exploited
        or a.meander_escalated != b.meander_escalated
        or a.meander_mapped != b.meander_mapped
        or a.known_subnets != b.known_subnets
        or a.known_addresses != b.known_addresses
        or a.known_hostnames != b.known_hostnames
        or a.scanned_by_session != b.scanned_by_session
        or a.knows_ot_service != b.knows_ot_service
    ):
        return False
    for host in range(len(a.decoys_when_scanned)):
        if a.decoys_when_scanned[host] != b.decoys_when_scanned[host]:
            return False
        if a.drawn[host] != b.drawn[host]:
            return False
    return True


@compiled
def after_blue(h: Any, kind: int, host: int) -> None:
    bit = 1 << host
    if tables.RESETS[kind]:
        h.sessions &= ~bit
        h.removable &= ~bit
        h.is_owned &= ~bit
        h.has_malware &= ~bit
        h.sandboxed &= ~bit
        h.drawn[host] = 0
    elif kind == tables.REMOVE and (h.removable & ~h.is_owned & bit):
        h.sessions &= ~bit
        h.removable &= ~bit


@compiled
def reds_options(h: Any, t: Any) -> tuple[np.int64, np.int64]:
    """Return the kind of Red's next action, and the mask of its possible targets.

    All targets are equally likely. In CAGE-1, Red takes the first target. Red's order of targets
    can differ if `bound_address` is drawn, which this function ignores."""
    if h.red_agent == red_agents.MEANDER:
        kind, targets = red_agents.meanders_options(h, t)
        if t.is_cage1:
            targets &= -targets  # Only the mask's lowest bit is left.
        return kind, targets
    action = red_agents.next_of_b_line(h)
    kind = np.int64(red_agents.PLAN[action])
    if action == red_agents.CHOOSES_FIRST_HOST and h.b_line_host == NONE:
        if t.is_cage1:
            return kind, np.int64(1) << int64(t.first_hosts[0])
        return kind, np.int64(FIRST_HOSTS)
    return kind, np.int64(1 << red_agents.target_of_b_line(h, t, action))


@compiled
def is_within_reach(h: Any, t: Any, subnet: int) -> bool:
    """Return whether Red reaches a subnet: see `red_actions.is_reachable`."""
    return t.reach[subnet] != tables.GUARDED or ((h.sessions | h.sandboxed) & t.enterprise) != 0


@compiled
def odds_of(
    h: Any,
    t: Any,
    kind: int,
    target: int,
    activity: int,
    decoys: int,
    is_new_decoy: bool,
    odds: Any,
) -> None:
    """Add to odds `[N_OUTCOMES]` the probability that each outcome and `activity` occur together.

    activity: what Blue sees on the target of Red's action. decoys: the mask of the decoys on the
    target. is_new_decoy: whether Blue set up one of these decoys in this step."""
    if kind == tables.EXPLOIT:
        odds_of_exploit(h, t, target, activity, decoys, is_new_decoy, odds)
    elif kind == tables.DISCOVER_SERVICES:
        shown = NO_ACTIVITY
        if is_within_reach(h, t, t.subnet[target]):
            n_decoys = count_bits(decoys)
            ports = t.listening_ports[target] | decoy_ports(decoys)
            shown = activity_of(int(t.n_listening[target]) + n_decoys, ports, False, is_new_decoy)
        if activity == shown:
            odds[DONE] += 1.0
    elif activity == NO_ACTIVITY and kind == tables.ESCALATE and chooses_session(h, target):
        odds[DONE] = odds[FAILED] = 0.5
    elif activity == NO_ACTIVITY:
        outcome = DONE if succeeds(h, t, kind, target) else FAILED
        odds[outcome] = 1.0


@compiled
def chooses_session(h: Any, target: int) -> bool:
    """Return whether an escalation draws one of two sessions: a usual session, or a session in a
    sandbox, with which the escalation fails."""
    return (((h.sessions & h.sandboxed & ~h.is_owned) >> target) & 1) != 0


@compiled
def succeeds(h: Any, t: Any, kind: int, target: int) -> bool:
    """Return whether an action that Blue cannot see succeeds. No random draw decides this."""
    if kind == tables.DISCOVER_SYSTEMS:
        return is_within_reach(h, t, target)
    has_session = ((h.sessions >> target) & 1) != 0
    if kind == tables.ESCALATE:
        return target == t.red_host or has_session
    has_session |= ((h.sandboxed >> target) & 1) != 0
    return kind == tables.IMPACT and has_session and h.knows_ot_service


@compiled
def odds_of_exploit(
    h: Any, t: Any, host: int, activity: int, decoys: int, is_new_decoy: bool, odds: Any
) -> None:
    """Do what `odds_of` does, for an exploit: see `red_actions.exploit_remote_service`."""
    found = (t.listening_ports[host] | decoy_ports(h.decoys_when_scanned[host])) & t.exploits
    if not (found & tables.WEB_PORTS):
        found &= ~(1 << tables.SQL_INJECTION)
    is_scanned = (h.scanned_by_session >> host) & 1
    if not found or not is_scanned or not is_within_reach(h, t, t.subnet[host]):
        if activity == NO_ACTIVITY:
            odds[FAILED] += 1.0
        return
    in_place = decoy_ports(decoys)
    if t.is_cage1:
        in_place &= SANDBOXES
    n_others = count_bits(found) - 1
    # The loop meets Red's best exploit first. All other exploits are equally likely.
    chance = tables.ODDS_OF_TOP_CHOICE if n_others else 1.0
    for i in range(tables.N_EXPLOITS):
        exploit = tables.PREFERENCE[i]
        if not ((found >> exploit) & 1):
            continue
        vulnerability = t.vulnerability[host, exploit]
        is_open = vulnerability != tables.NOT_VULNERABLE
        as_root = vulnerability == tables.VULNERABLE_AS_ROOT
        port = 1 << exploit
        if not is_open and not (in_place & port):
            if activity == NO_ACTIVITY:
                odds[FAILED] += chance
        elif exploit == tables.SSH_BRUTE_FORCE:
            shown = activity_of(tables.WORDS_OF_BRUTE_FORCE, port, False, is_new_decoy)
            outcome = SSH_SESSION if is_open and t.bruteforceable[host] else FAILED
            if activity == shown:
                odds[outcome] += chance
        elif not is_open and not t.is_cage1:
            shown = activity_of(2, port, False, is_new_decoy)
            if activity == shown:
                odds[FAILED] += chance
        else:
            seen, unseen = SHELL, UNSEEN_SHELL
            if not is_open:
                seen = unseen = SANDBOX
            elif as_root:
                seen, unseen = ROOT_SHELL, UNSEEN_ROOT_SHELL
            ports = port | (1 << tables.EPHEMERAL)
            shown = activity_of(2, ports, True, is_new_decoy)
            if activity == shown:
                odds[seen] += chance * tables.DETECTION_RATE
            shown = activity_of(1, port, False, is_new_decoy)
            if activity == shown:
                odds[unseen] += chance * (1 - tables.DETECTION_RATE)
        chance = (1 - tables.ODDS_OF_TOP_CHOICE) / max(n_others, 1)


@compiled
def after_red(h: Any, t: Any, kind: int, target: int, outcome: int, decoys: int) -> None:
    """Apply Red's action with an outcome, and what Red learns from the outcome. decoys: the mask of
    the decoys on the target."""
    bit = 1 << target
    if t.is_cage1 and kind in (tables.DISCOVER_SERVICES, tables.EXPLOIT):
        h.drawn[target] = decoys
    if h.red_agent == red_agents.MEANDER:
        red_agents.act_as_meander(h, kind, target)
    else:
        action = red_agents.next_of_b_line(h)
        if action == red_agents.CHOOSES_FIRST_HOST:
            h.b_line_host = target
        red_agents.act_as_b_line(h, t, action)
    # B_line reads only whether its last scan had events, so 0 or 1 is enough.
    h.n_events = 0
    if kind == tables.DISCOVER_SYSTEMS and outcome == DONE:
        h.known_addresses |= t.subnet_mask[target]
        h.known_subnets |= bit
    elif kind == tables.DISCOVER_SERVICES and is_within_reach(h, t, t.subnet[target]):
        h.n_events = 1
        h.scanned_by_session |= bit
        # In CAGE-1, a scan adds to the ports that Red knows. In CAGE-2, a scan replaces them all.
        if not t.is_cage1:
            h.decoys_when_scanned[target] = 0
        h.decoys_when_scanned[target] |= decoys
    elif kind == tables.ESCALATE and outcome == DONE:
        if target != t.red_host:
            h.is_owned |= bit
            h.has_malware |= bit
        h.known_addresses |= t.explored_addresses[target]
        h.known_subnets |= t.explored_subnets[target]
        if t.shows_ot_service[target]:
            h.knows_ot_service = True
    elif kind == tables.ESCALATE:
        h.sandboxed &= ~bit
    elif outcome == SANDBOX:
        h.sandboxed |= bit
        h.known_hostnames |= bit
        h.has_malware |= bit
    elif outcome >= SHELL:
        gain_session(h, bit, outcome)
    h.red_success = tables.FALSE if outcome == FAILED else tables.TRUE
    if h.red_agent == red_agents.MEANDER:
        red_agents.learn_as_meander(h, t)
        # RedMeander does not read these fields again. Clearing them makes more hypotheses equal.
        h.red_success = tables.UNKNOWN
        h.n_events = 0


@compiled
def gain_session(h: Any, bit: int, outcome: int) -> None:
    """Start a session of Red. Remove can end a session that monitoring noticed as a user's."""
    had_others = (h.sessions & ~h.removable & bit) != 0
    h.sessions |= bit
    h.known_hostnames |= bit
    if outcome == SHELL and not had_others:
        h.removable |= bit
    else:
        h.removable &= ~bit
    if outcome in (ROOT_SHELL, UNSEEN_ROOT_SHELL):
        h.is_owned |= bit
    if outcome != SSH_SESSION:
        h.has_malware |= bit


@compiled
def possible_decoys(t: Any, host: int) -> int:
    """Return the mask of the kinds of decoys that CAGE-1's Misinform can set up on a host."""
    kinds = 0
    for kind in SAME_PORT_KINDS:
        if not ((t.listening_ports[host] >> tables.DECOY_PORT[kind]) & 1):
            kinds |= 1 << kind
    return kinds


@compiled
def symmetry_weight(decoys: int, fresh: int) -> int:
    """Return the number of equivalent sets of decoys for which this set stands, or 0.

    fresh: the mask of the kinds that Red has not met on the host. Take a pair of PAIRS whose kinds
    are both fresh, and two sets that differ only in which of these kinds they have. Red acts alike
    on both sets: Red prefers any other port to both ports of the pair, or to neither. So the set
    with the first kind stands for both sets. The set with the second kind has weight 0."""
    weight = 1
    for i in range(len(PAIRS)):
        first, second = 1 << PAIRS[i, 0], 1 << PAIRS[i, 1]
        has_first, has_second = (decoys & first) != 0, (decoys & second) != 0
        is_fresh = (fresh & first) != 0 and (fresh & second) != 0
        if is_fresh and has_second and not has_first:
            return 0
        if is_fresh and has_first and not has_second:
            weight *= 2
    return weight


@compiled
def decoy_ports(decoys: int) -> int:
    """Return the mask of the ports that these decoys open."""
    ports = 0
    for decoy in range(tables.N_DECOYS):
        if (decoys >> decoy) & 1:
            ports |= 1 << tables.DECOY_PORT[decoy]
    return ports
