"""What a blue agent remembers of events and of its own actions, as numbers for a network.

The memory of an agent follows from its own observations and its mask alone: no messages. One
record holds the memories of the five agents. The functions are plain Python with NumPy, which
`batched` compiles for many episodes at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage4 import scenario4

N_AGENTS, N_OWN_ZONES, N_HOSTS = (
    len(scenario4.AGENTS),
    len(scenario4.OWN_ZONES),
    scenario4.HOSTS_OF_A_ZONE,
)
FIRST_ZONE, ZONE_COUNT = scenario4.FIRST_ZONE_OF_AGENT, scenario4.N_ZONES_OF_AGENT
ANALYSES = scenario4.ON_HOSTS["Analyse"]

SHELL, DOUBT, SCAN, SOURCE, RESTORED, REMOVED = range(6)
FLAGS = (
    *("shell", "had_shell", "doubt", "had_doubt", "source", "scanned", "removed"),
    *("may_be_first", "may_return"),
)
"""may_return marks a host that was restored. If a Restore ends red's last session, red still takes
the host for its own, and becomes root there without an event once a phishing mail opens a
session."""
SPANS = (4.0, 20.0, 100.0)
LONG_AGO = -1e6
MEMORY = np.dtype(
    [
        ("step", np.int32),
        *((name, np.uint8, (N_OWN_ZONES, N_HOSTS)) for name in ("exists", *FLAGS)),
        ("n_attacks", np.float32, (N_OWN_ZONES, N_HOSTS)),
        ("last", np.float32, (6, N_OWN_ZONES, N_HOSTS)),
        ("first_activity", np.float32, N_AGENTS),
        ("last_activity", np.float32, N_AGENTS),
        ("last_attack", np.float32, N_AGENTS),
        ("n_scans", np.float32, N_AGENTS),
        ("n_exploits", np.float32, N_AGENTS),
        ("n_restores", np.float32, N_AGENTS),
        ("busy", np.int32, N_AGENTS),
        ("target", np.int32, N_AGENTS),
        ("restores", np.uint8, N_AGENTS),
        ("is_due", np.uint8, N_AGENTS),
    ],
    align=True,
)

N_STEPS, END, RHYTHM = scenario4.MAX_STEPS, scenario4.COUNTED_STEPS, 4
LAST_DECISION = END - 8
BUSY_RESTORE, BUSY_REMOVE = scenario4.DURATIONS["Restore"], scenario4.DURATIONS["Remove"]
_FIRST_ZONES = [scenario4.ZONES.index(zones[0]) for zones in scenario4.AGENT_ZONES]
DEAR = 10


def _clock() -> Any:
    """Return what an agent knows from the step's number alone, `[501, 5, 10]`."""
    table = np.zeros((N_STEPS + 1, N_AGENTS, 10), np.float32)
    for step in range(N_STEPS + 1):
        phase = sum(step >= start for start in scenario4.PHASE_STARTS) - 1
        remaining = max(0, END - step)
        for agent in range(N_AGENTS):
            rewards = scenario4.REWARDS[phase][_FIRST_ZONES[agent]]
            work, impact = -rewards[scenario4.FAILED_WORK], -rewards[scenario4.IMPACT_COST]
            row = [work / DEAR, impact / DEAR, remaining / N_STEPS]
            row += [np.exp(-remaining / 10), np.exp(-remaining / 60), float(work == DEAR)]
            for later in (1, 2):
                wait = scenario4.PHASE_STARTS[later] - step
                comes = wait > 0 and (_FIRST_ZONES[agent], later) in scenario4.DECISIVE_PHASES
                row += [np.exp(-wait / 15), np.exp(-wait / 60)] if comes else [0.0, 0.0]
            table[step, agent] = row
    return table


CLOCK = _clock()
LEAD = 30
"""Steps before an agent's dear phase in which the agent must restore suspects."""
DECISIVE_FROM = np.array(
    [
        sum(
            scenario4.PHASE_STARTS[phase]
            for zone, phase in scenario4.DECISIVE_PHASES
            if zone == first_zone
        )
        for first_zone in _FIRST_ZONES
    ]
)
"""By agent: the first step of the phase in which a green's failed work is dear, or 0."""
N_CLOCK = CLOCK.shape[-1]
N_FEATURES, N_CONTEXT = 11 + 6 * len(SPANS), N_CLOCK + 13 + 3 * len(SPANS)


def begin(m: Any, mask: Any) -> None:
    """Begin an episode. mask: bool `[570]`."""
    m.step = 0
    m.last[:] = LONG_AGO
    m.last[RESTORED] = 0
    m.first_activity[:] = LONG_AGO
    m.last_activity[:] = LONG_AGO
    m.last_attack[:] = LONG_AGO
    m.n_scans[:] = 0
    m.n_exploits[:] = 0
    m.n_restores[:] = 0
    m.n_attacks[:] = 0
    m.busy[:] = 0
    for flags in (m.shell, m.had_shell, m.doubt, m.had_doubt, m.source, m.scanned, m.removed):
        flags[:] = 0
    m.may_return[:] = 0
    for zone in range(N_OWN_ZONES):
        for host in range(N_HOSTS):
            m.exists[zone, host] = mask[ANALYSES[zone, host]]
            m.may_be_first[zone, host] = m.exists[zone, host] and host >= scenario4.N_SERVERS


def read_observations(m: Any, obs: Any) -> None:
    """Read a step's observations, `[578]`: those of the five agents one after the other."""
    for agent in range(N_AGENTS):
        m.is_due[agent] = m.step % RHYTHM == 0
        if m.busy[agent] > 0:
            m.busy[agent] -= 1
            if m.busy[agent] == 0:
                m.is_due[agent] = True
                finish(m, agent)
        read_zones(m, agent, obs)
    m.step += 1


def finish(m: Any, agent: int) -> None:
    """Forget what a Restore or Remove ended that took effect in the last step."""
    zone = FIRST_ZONE[agent] + m.target[agent] // N_HOSTS
    host = m.target[agent] % N_HOSTS
    m.shell[zone, host] = 0
    m.doubt[zone, host] = 0
    if m.restores[agent]:
        for flags in (m.had_shell, m.had_doubt, m.source, m.scanned, m.removed, m.may_be_first):
            flags[zone, host] = 0
        m.n_attacks[zone, host] = 0
        m.may_return[zone, host] = host >= scenario4.N_SERVERS
        m.n_restores[agent] += 1
        m.last[RESTORED, zone, host] = m.step
    else:
        m.removed[zone, host] = 1
        m.last[REMOVED, zone, host] = m.step


def read_zones(m: Any, agent: int, obs: Any) -> None:
    """Read the events of an agent's zones."""
    first, n = FIRST_ZONE[agent], ZONE_COUNT[agent]
    is_attacked = False
    for zone in range(first, first + n):
        for host in range(N_HOSTS):
            at = scenario4.PROCESSES[zone, host]
            is_attacked |= obs[at] > 0 and obs[at + N_HOSTS] > 0
    for zone in range(first, first + n):
        for host in range(N_HOSTS):
            at = scenario4.PROCESSES[zone, host]
            if obs[at] > 0 or obs[at + N_HOSTS] > 0:
                m.is_due[agent] = True
                read_host(m, agent, zone, host, obs[at] > 0, obs[at + N_HOSTS] > 0, is_attacked)


def read_host(
    m: Any, agent: int, zone: int, host: int, process: bool, connection: bool, is_attacked: bool
) -> None:
    """Read the events of a host. What they say: see `belief`."""
    is_user, now = host >= scenario4.N_SERVERS, m.step
    if process and (connection or not is_user):
        m.shell[zone, host] = 1
        m.had_shell[zone, host] = 1
        m.scanned[zone, host] = 0
        m.may_be_first[zone, host] = 0
        m.may_return[zone, host] = 0
        m.last[SHELL, zone, host] = now
        m.n_exploits[agent] += 1
        m.last_attack[agent] = now
    elif process:
        m.doubt[zone, host] = 1
        m.had_doubt[zone, host] = 1
        m.last[DOUBT, zone, host] = now
        return
    elif is_user and is_attacked:
        m.source[zone, host] = 1
        m.n_attacks[zone, host] += 1
        m.last[SOURCE, zone, host] = now
    else:
        m.scanned[zone, host] = 1
        m.may_be_first[zone, host] = 0
        m.last[SCAN, zone, host] = now
        if not is_user:
            return  # Greens cause such events, too.
        m.n_scans[agent] += 1
        # Red scans no host that it holds.
        m.may_return[zone, host] = 0
        m.had_shell[zone, host] &= m.shell[zone, host]
        m.had_doubt[zone, host] &= m.doubt[zone, host]
    m.last_activity[agent] = now
    if m.first_activity[agent] == LONG_AGO:
        m.first_activity[agent] = now


def start(m: Any, agent: int, host: int, restores: bool) -> None:
    """Note that an agent begins Restore or Remove on one of its 16 or 48 hosts."""
    m.busy[agent] = BUSY_RESTORE if restores else BUSY_REMOVE
    m.target[agent] = host
    m.restores[agent] = restores


def may_act(m: Any, agent: int) -> bool:
    """Return whether an agent decides now: something happened, or four steps have passed."""
    return m.busy[agent] == 0 and m.is_due[agent] != 0 and m.step - 1 < LAST_DECISION


def find_options(m: Any, agent: int, options: Any) -> bool:
    """Write what is worth a thought, bool `[1 + 2 * hosts]`: wait, Remove, Restore.

    Returns whether there is more than to wait. In the LEAD steps before its dear phase, an agent
    must restore suspects until there are none: one that is missed costs more than all Restores of
    an episode, but so seldom that learning alone forgets it.
    """
    n = ZONE_COUNT[agent] * N_HOSTS
    wait = DECISIVE_FROM[agent] - (m.step - 1)
    must_restore = False
    options[:] = False
    options[0] = True
    is_active = m.first_activity[agent] != LONG_AGO
    found = False
    for i in range(n):
        zone, host = FIRST_ZONE[agent] + i // N_HOSTS, i % N_HOSTS
        if not m.exists[zone, host]:
            continue
        may_remove = m.shell[zone, host] or m.doubt[zone, host]
        may_restore = (
            may_remove
            or m.had_shell[zone, host]
            or m.had_doubt[zone, host]
            or m.source[zone, host]
            or (is_active and (m.may_be_first[zone, host] or m.scanned[zone, host]))
            or m.may_return[zone, host]
        )
        options[1 + i] = may_remove
        options[1 + n + i] = may_restore
        found |= may_restore != 0
        must_restore |= 0 < wait <= LEAD and is_suspect(m, agent, zone, host)
    if must_restore:
        options[: 1 + n] = False
        for i in range(n):
            zone, host = FIRST_ZONE[agent] + i // N_HOSTS, i % N_HOSTS
            options[1 + n + i] &= m.shell[zone, host] or is_suspect(m, agent, zone, host)
    return found


def is_suspect(m: Any, agent: int, zone: int, host: int) -> bool:
    """Return whether red may be root on a user's host, or become root there, without an event."""
    is_active = m.first_activity[agent] != LONG_AGO
    long_restored = m.step - 1 - m.last[RESTORED, zone, host] > LEAD + BUSY_RESTORE + RHYTHM
    return host >= scenario4.N_SERVERS and (
        (is_active and m.may_be_first[zone, host] != 0)
        or m.had_doubt[zone, host] != 0
        or (m.may_return[zone, host] != 0 and long_restored)
    )


def describe(m: Any, agent: int, hosts: Any, context: Any) -> None:
    """Write the network's input: float32 hosts `[16 or 48, F]`, context `[C]`."""
    now, first, n = m.step - 1, FIRST_ZONE[agent], ZONE_COUNT[agent]
    is_active = m.first_activity[agent] != LONG_AGO
    n_first, n_exist, n_users, n_return = 0, 0, 0, 0
    n_shells, n_sources, n_doubts, n_had = 0, 0, 0, 0
    for zone in range(first, first + n):
        for host in range(N_HOSTS):
            if m.exists[zone, host]:
                n_exist += 1
                n_users += host >= scenario4.N_SERVERS
                n_first += m.may_be_first[zone, host]
                n_return += m.may_return[zone, host]
                n_shells += m.shell[zone, host]
                n_sources += m.source[zone, host]
                n_doubts += m.doubt[zone, host]
                n_had += m.had_shell[zone, host]
    hosts[:] = 0
    for i in range(n * N_HOSTS):
        zone, host = first + i // N_HOSTS, i % N_HOSTS
        if m.exists[zone, host]:
            describe_host(m, zone, host, hosts[i], is_active, n_first, now)
    for i in range(N_CLOCK):
        context[i] = CLOCK[now, agent, i]
    at = N_CLOCK
    for last in (m.first_activity[agent], m.last_activity[agent], m.last_attack[agent]):
        for span in SPANS:
            context[at] = span / (span + now - last)
            at += 1
    for value in (
        1.0 * is_active,
        min(n_first, 10) / 10,
        min(n_return, 10) / 10,
        1.0 * (n_first <= 1),
        n_exist / (N_HOSTS * n),
        n_users / ((N_HOSTS - scenario4.N_SERVERS) * n),
        min(n_shells, 5) / 3,
        min(n_sources, 5) / 3,
        min(n_doubts, 5) / 3,
        min(n_had, 5) / 3,
        np.log1p(m.n_scans[agent]) / 3,
        np.log1p(m.n_exploits[agent]) / 3,
        np.log1p(m.n_restores[agent]) / 3,
    ):
        context[at] = value
        at += 1


def describe_host(
    m: Any, zone: int, host: int, row: Any, is_active: bool, n_first: int, now: int
) -> None:
    """Write the features of a host, `[F]`. Those of a host that does not exist are zeros."""
    row[0] = 1
    row[1] = host < scenario4.N_SERVERS
    row[2] = m.shell[zone, host]
    row[3] = m.had_shell[zone, host]
    row[4] = m.doubt[zone, host]
    row[5] = m.had_doubt[zone, host]
    row[6] = m.source[zone, host] + min(m.n_attacks[zone, host], 3.0) / 3
    row[7] = m.may_be_first[zone, host] * is_active / max(n_first, 1)
    row[8] = m.removed[zone, host]
    row[9] = m.scanned[zone, host]
    row[10] = m.may_return[zone, host]
    at = 11
    for which in range(6):
        ago = now - m.last[which, zone, host]
        for span in SPANS:
            row[at] = span / (span + ago)
            at += 1
