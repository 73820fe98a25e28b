"""What Blue can conclude from its own actions and what it saw in an episode, and nothing else.

Hypotheses of what Red is, has and knows, each with its probability, by Bayes' rule: every step each
becomes as many as Red had choices that fit what Blue saw. Few remain, for what Red does next tells
them apart. So Blue knows who attacks after two steps, and nearly always where Red is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.jit import compiled, entry_point
from workflow_rl.cage2.compiled.observe import EXPLOITED, NO_ACTIVITY, SCAN, count_bits
from workflow_rl.cage2.compiled.red_agents import B_LINE, LAST, MEANDER, next_of_b_line
from workflow_rl.cage2.compiled.red_hypothesis import (
    N_OUTCOMES,
    after_blue,
    after_red,
    begin_hypothesis,
    decoy_ports,
    is_same,
    odds_of,
    reds_options,
)
from workflow_rl.cage2.compiled.state import NONE
from workflow_rl.cage2.compiled.tables import (
    ACTION_HOST,
    ACTION_KIND,
    ANALYSE,
    DECOY_FITS,
    DECOY_FREE_PORT,
    DISCOVER_SERVICES,
    EXPLOIT,
    FIRST_DECOY,
    LAST_DECOY,
    N_DECOYS,
    N_HOSTS,
    RED_HOST,
    RESTORE,
)
from workflow_rl.cage2.scenario2 import HOSTS, RED_ACTIONS

N_HYPOTHESES = 16
LEAST_PROBABILITY = 1e-4
"""What is less likely is forgotten, and all but so many."""
N_CANDIDATES = N_HYPOTHESES * N_HOSTS * N_OUTCOMES

BELIEF = np.dtype(
    [
        ("n_hypotheses", np.uint8),
        # Masks of those in place, by host.
        ("decoys", np.uint8, N_HOSTS),
        ("probability", np.float64, N_HYPOTHESES),
    ],
    align=True,
)

CONTESTED = np.array([host for host in range(N_HOSTS) if HOSTS[host] not in ("Defender", "User0")])
"""Hosts that Red can gain."""
WORTH_A_DECOY = np.array(
    [
        (host, decoy)
        for host in range(N_HOSTS)
        for decoy in range(N_DECOYS)
        if DECOY_FITS[host, decoy] and host != RED_HOST
    ]
)
"""Hosts and decoys that Blue may want there: Red is on its own host anyway. [K, 2]."""

# Probabilities are shown as whether they are above these: equal beliefs are equal bits.
THRESHOLDS = (0.1, 0.5, 0.9)
N_MASKS_SHOWN = 7
N_OF_HOSTS = 4 * len(CONTESTED)
N_PROBABILITIES = N_OF_HOSTS + LAST + 2
N_SHOWN = (
    4 * N_HOSTS
    + 2 * len(WORTH_A_DECOY)
    + N_MASKS_SHOWN * N_HOSTS
    + len(RED_ACTIONS)
    + len(THRESHOLDS) * N_PROBABILITIES
)


@compiled
def begin_belief(b: Any, hypotheses: Any) -> None:
    """As an episode begins: one of the two who attack."""
    b.n_hypotheses = 2
    b.decoys[:] = 0
    begin_hypothesis(hypotheses[0], B_LINE)
    begin_hypothesis(hypotheses[1], MEANDER)
    b.probability[0] = b.probability[1] = 0.5


@compiled
def conclude(
    b: Any, hypotheses: Any, action: int, obs: Any, candidates: Any, odds: Any, weights: Any
) -> None:
    """A step: Blue's action, and the bits that it led to, uint8 `[52]`.

    candidates `[N_CANDIDATES]`, odds `[N_OUTCOMES]`, weights `[N_CANDIDATES]`: room to work in.
    """
    kind, host = int(ACTION_KIND[action]), int(ACTION_HOST[action])
    new_decoy_host = note_decoys(b, kind, host)
    for n in range(b.n_hypotheses):
        after_blue(hypotheses[n], kind, host)
    found = obs[4 * host + 2] == 1 and obs[4 * host + 3] == 1
    seen, activity = NONE, NO_ACTIVITY
    for i in range(N_HOSTS):
        if obs[4 * i]:
            seen, activity = i, EXPLOITED if obs[4 * i + 1] else SCAN
    n_candidates = 0
    for n in range(b.n_hypotheses):
        h = hypotheses[n]
        if kind == ANALYSE and found != (h.has_malware >> host & 1 != 0):
            continue
        options = reds_options(h)
        red_kind, targets = int(options[0]), int(options[1])
        is_shown = red_kind in (DISCOVER_SERVICES, EXPLOIT)
        n_targets = count_bits(targets)
        for target in range(N_HOSTS):
            if not targets >> target & 1 or (seen != NONE and not (is_shown and seen == target)):
                continue
            decoys = int(b.decoys[target])
            is_new = new_decoy_host == target
            odds_of(h, red_kind, target, activity, decoys, is_new, odds)
            for outcome in range(N_OUTCOMES):
                if odds[outcome] > 0:
                    candidates[n_candidates] = h
                    weights[n_candidates] = b.probability[n] * odds[outcome] / n_targets
                    after_red(candidates[n_candidates], red_kind, target, outcome, decoys)
                    n_candidates += 1
    if n_candidates > 0:
        keep_likeliest(b, hypotheses, candidates, weights, n_candidates)
    # Otherwise Red is neither of the two, or what it is was too unlikely to be kept: all that was
    # thought of it stays.


@compiled
def note_decoys(b: Any, kind: int, host: int) -> int:
    """What Blue's action makes of the decoys. Returns the host of a new one, or NONE."""
    if kind == RESTORE:
        b.decoys[host] = 0
    if not FIRST_DECOY <= kind <= LAST_DECOY:
        return NONE
    decoy = kind - FIRST_DECOY
    if not DECOY_FITS[host, decoy] or decoy_ports(b.decoys[host]) >> DECOY_FREE_PORT[decoy] & 1:
        return NONE
    b.decoys[host] |= 1 << decoy
    return host


@compiled
def keep_likeliest(b: Any, hypotheses: Any, candidates: Any, weights: Any, n: int) -> None:
    """Of the first n candidates `[N_CANDIDATES]`, with weights that need not add up to 1: those
    that say the same as one, the likeliest first."""
    total = 0.0
    for i in range(n):
        total += weights[i]
        for j in range(i):
            if weights[j] > 0 and is_same(candidates[i], candidates[j]):
                weights[j] += weights[i]
                weights[i] = 0
                break
    n_kept, sum_kept = 0, 0.0
    while n_kept < N_HYPOTHESES:
        best = 0
        for i in range(n):
            if weights[i] > weights[best]:
                best = i
        if n_kept > 0 and weights[best] < LEAST_PROBABILITY * total:
            break
        hypotheses[n_kept] = candidates[best]
        b.probability[n_kept] = weights[best]
        sum_kept += weights[best]
        weights[best] = 0
        n_kept += 1
    b.n_hypotheses = n_kept
    for i in range(n_kept):
        b.probability[i] /= sum_kept


@compiled
def show_belief(b: Any, hypotheses: Any, obs: Any, probabilities: Any, shown: Any) -> None:
    """All that Blue acts on, uint8 `[N_SHOWN]`: obs, then what it concludes, as bits.

    probabilities `[N_PROBABILITIES]`: room to work in.
    """
    n = len(obs)
    shown[:n] = obs
    likeliest = hypotheses[0]
    for i in range(len(WORTH_A_DECOY)):
        host, decoy = WORTH_A_DECOY[i]
        shown[n] = b.decoys[host] >> decoy & 1
        shown[n + 1] = likeliest.decoys_when_scanned[host] >> decoy & 1
        n += 2
    kind, targets = reds_options(likeliest)
    for hosts in (
        np.int64(likeliest.known_addresses),
        np.int64(likeliest.scanned_by_session | likeliest.meander_scanned),
        np.int64(likeliest.meander_exploited),
        np.int64(likeliest.meander_escalated),
        np.int64(likeliest.meander_mapped),
        np.int64(likeliest.has_malware),
        targets,
    ):
        for host in range(N_HOSTS):
            shown[n + host] = hosts >> host & 1
        n += N_HOSTS
    for i in range(len(RED_ACTIONS)):
        shown[n + i] = kind == i
    n += len(RED_ACTIONS)
    sum_up(b, hypotheses, probabilities)
    for i in range(N_PROBABILITIES):
        for threshold in THRESHOLDS:
            shown[n] = probabilities[i] > threshold
            n += 1


@compiled
def sum_up(b: Any, hypotheses: Any, probabilities: Any) -> None:
    """Of every contested host, that Red has sessions there, that monitoring caught them all as a
    user's, that Red owns it, and that Red exploits it next; of B_line, that it attacks, and each
    next action."""
    probabilities[:] = 0
    for n in range(b.n_hypotheses):
        h, probability = hypotheses[n], b.probability[n]
        kind, targets = reds_options(h)
        exploited_next = targets if kind == EXPLOIT else np.int64(0)
        n_targets = max(count_bits(int(exploited_next)), 1)
        for i in range(len(CONTESTED)):
            host = CONTESTED[i]
            if h.sessions >> host & 1:
                probabilities[4 * i] += probability
            if h.removable >> host & 1:
                probabilities[4 * i + 1] += probability
            if h.is_owned >> host & 1:
                probabilities[4 * i + 2] += probability
            if exploited_next >> host & 1:
                probabilities[4 * i + 3] += probability / n_targets
        if h.red_agent == B_LINE:
            probabilities[N_OF_HOSTS] += probability
            probabilities[N_OF_HOSTS + 1 + next_of_b_line(h)] += probability


@entry_point
def begin_beliefs(beliefs: Any, chosen: Any, hypotheses: Any, obs: Any, shown: Any) -> None:
    """Episodes begin in the M chosen of N beliefs, whose hypotheses are `[N, N_HYPOTHESES]`.
    obs `[M, 52]`, shown `[M, N_SHOWN]`, uint8."""
    probabilities = np.zeros(N_PROBABILITIES)
    for i in range(len(chosen)):
        its = hypotheses[chosen[i]]
        begin_belief(beliefs[chosen[i]], its)
        show_belief(beliefs[chosen[i]], its, obs[i], probabilities, shown[i])


@entry_point
def conclude_steps(
    beliefs: Any,
    chosen: Any,
    hypotheses: Any,
    candidates: Any,
    actions: Any,
    obs: Any,
    shown: Any,
) -> None:
    """A step in the M chosen of N beliefs: actions int64 `[M]`, and obs that it led to.
    candidates `[N_CANDIDATES]`: room to work in."""
    odds, weights = np.zeros(N_OUTCOMES), np.zeros(N_CANDIDATES)
    probabilities = np.zeros(N_PROBABILITIES)
    for i in range(len(chosen)):
        belief, its = beliefs[chosen[i]], hypotheses[chosen[i]]
        conclude(belief, its, actions[i], obs[i], candidates, odds, weights)
        show_belief(belief, its, obs[i], probabilities, shown[i])
