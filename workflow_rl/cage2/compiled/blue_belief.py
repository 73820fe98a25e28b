"""What Blue can conclude in an episode from only its own actions and observations.

A belief is a set of hypotheses, each with a probability. A hypothesis says which red agent plays,
what Red holds and what Red knows. In every step, a hypothesis branches into all choices of Red that
fit Blue's observation, and Bayes' rule gives the new probabilities. Red's later actions refute most
hypotheses. Blue knows the red agent after two steps, and nearly always knows which hosts Red holds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2 import scenario2
from workflow_rl.cage2.compiled import red_hypothesis, tables
from workflow_rl.cage2.compiled.description import SCENARIO2, Tables
from workflow_rl.cage2.compiled.jit import compiled, entry_point, int64
from workflow_rl.cage2.compiled.observe import EXPLOITED, NO_ACTIVITY, SCAN, count_bits
from workflow_rl.cage2.compiled.red_agents import B_LINE, LAST, MEANDER, next_of_b_line
from workflow_rl.cage2.compiled.state import NONE
from workflow_rl.cage2.scenario.actions import RED_ACTIONS
from workflow_rl.cage2.scenario2 import HOSTS

N_HOSTS = len(HOSTS)
N_HYPOTHESES = 16
"""The largest number of hypotheses that a belief `b` keeps."""
LEAST_PROBABILITY = 1e-4
"""A belief drops hypotheses that are less likely than this."""
N_CANDIDATES = N_HYPOTHESES * N_HOSTS * red_hypothesis.N_OUTCOMES

BELIEF = np.dtype(
    [
        ("n_hypotheses", np.uint8),
        # Whether Red has once acted in a way that no hypothesis explains.
        ("is_refuted", np.bool_),
        # For each host, the mask of the decoys in place.
        ("decoys", np.uint8, N_HOSTS),
        ("probability", np.float64, N_HYPOTHESES),
    ],
    align=True,
)

DECOY_SET = np.dtype([("decoys", np.int64), ("weight", np.int64)])
MAX_DECOY_SETS = 8
"""The largest number of sets that `decoy_sets_seen` writes."""

CONTESTED = np.array([HOSTS.index(host) for host in scenario2.CONTESTED])
DECOY_FITS = SCENARIO2.decoy_fits


def decoys_of_use(scenario: Tables) -> NDArray[np.int64]:
    """Return K pairs `[K, 2]` of a host and a decoy that the host can have. Red's first host has
    no pair."""
    fits = scenario.decoy_fits
    if scenario.of["is_cage1"]:
        kinds = red_hypothesis.SAME_PORT_KINDS
        ports = (scenario.of["listening_ports"][:, None] >> tables.DECOY_PORT[kinds]) & 1
        fits = np.zeros_like(fits)
        fits[:, kinds] = ports == 0
    fits = fits & (np.arange(N_HOSTS)[:, None] != scenario.of["red_host"])
    return np.array(np.argwhere(fits), order="C")


WORTH_A_DECOY = decoys_of_use(SCENARIO2)

THRESHOLDS = (0.1, 0.5, 0.9)
"""A probability is shown as three bits: whether the probability is above each threshold. Rounding
errors hardly ever change these bits."""
N_MASKS_SHOWN = 7
N_OF_HOSTS = 4 * len(CONTESTED)
N_PROBABILITIES = N_OF_HOSTS + LAST + 2


def columns_shown(n_decoys: int) -> dict[str, NDArray[np.int64]]:
    """Return the columns of the belief's observation, by name. n_decoys: K of `decoys_of_use`.

    `show_belief` writes the columns in this order. Stored policies depend on the order."""
    shapes = {
        "bits": (N_HOSTS, 4),
        "decoys": (n_decoys, 2),
        "masks": (N_MASKS_SHOWN, N_HOSTS),
        "kind": (len(RED_ACTIONS),),
        "of hosts": (len(CONTESTED), 4 * len(THRESHOLDS)),
        "of B_line": (LAST + 2, len(THRESHOLDS)),
    }
    columns, first = {}, 0
    for name, shape in shapes.items():
        columns[name] = first + np.arange(math.prod(shape)).reshape(shape)
        first += columns[name].size
    return columns


def n_shown(n_decoys: int) -> int:
    """Return how many bits the belief's observation has. n_decoys: K of `decoys_of_use`."""
    return sum(columns.size for columns in columns_shown(n_decoys).values())


N_SHOWN = n_shown(len(WORTH_A_DECOY))


@compiled
def conclude(
    b: Any,
    t: Any,
    hypotheses: Any,
    action: int,
    obs: Any,
    candidates: Any,
    odds: Any,
    weights: Any,
    sets: Any,
) -> None:
    """Update the belief with Blue's action and the observation after it, obs uint8 `[52]`.

    candidates `[N_CANDIDATES]`, odds `[N_OUTCOMES]`, weights `[N_CANDIDATES]`, sets
    `[MAX_DECOY_SETS]`: working space."""
    kind, host = int64(t.action_kind[action]), int64(t.action_host[action])
    new_decoy_host = note_decoys(b, t, kind, host)
    # In CAGE-1, a new decoy of Blue looks like a scan by Red in Blue's observation.
    looks_scanned = new_decoy_host if t.is_cage1 else NONE
    for n in range(b.n_hypotheses):
        red_hypothesis.after_blue(hypotheses[n], kind, host)
    # A host's first two bits show activity, and the last two show compromise: see `observe`.
    found_malware = obs[4 * host + 2] == 1 and obs[4 * host + 3] == 1
    seen_on, activity = NONE, NO_ACTIVITY
    for i in range(N_HOSTS):
        if obs[4 * i] and (i != looks_scanned or obs[4 * i + 1]):
            seen_on = i
            activity = EXPLOITED if obs[4 * i + 1] else SCAN
    n_candidates = 0
    for n in range(b.n_hypotheses):
        h = hypotheses[n]
        has_malware = ((h.has_malware >> host) & 1) != 0
        if kind == tables.ANALYSE and found_malware != has_malware:
            continue
        options = red_hypothesis.reds_options(h, t)
        red_kind, targets = int(options[0]), int(options[1])
        # Of Red's actions, only scans and exploits show as an activity.
        is_shown = red_kind in (tables.DISCOVER_SERVICES, tables.EXPLOIT)
        n_targets = count_bits(targets)
        for target in range(N_HOSTS):
            if not ((targets >> target) & 1):
                continue
            explains_activity = is_shown and seen_on == target
            if seen_on != NONE and not explains_activity:
                continue
            is_new = new_decoy_host == target
            # Only in CAGE-1, Blue does not know which decoys Red meets.
            sets[0].decoys = int(b.decoys[target])
            sets[0].weight = 1
            n_sets, n_choices = 1, 1
            if t.is_cage1 and is_shown:
                n_sets, n_choices = decoy_sets_seen(b, h, t, target, sets)
            for i in range(n_sets):
                decoys = sets[i].decoys
                odds[:] = 0
                red_hypothesis.odds_of(h, t, red_kind, target, activity, decoys, is_new, odds)
                # What Blue's new decoy shows can hide a scan by Red.
                if seen_on == NONE and target == looks_scanned:
                    red_hypothesis.odds_of(h, t, red_kind, target, SCAN, decoys, is_new, odds)
                for outcome in range(red_hypothesis.N_OUTCOMES):
                    if odds[outcome] > 0:
                        candidates[n_candidates] = h
                        weight = b.probability[n] * odds[outcome] / (n_targets * n_choices)
                        weights[n_candidates] = weight * sets[i].weight
                        red_hypothesis.after_red(
                            candidates[n_candidates], t, red_kind, target, outcome, decoys
                        )
                        n_candidates += 1
    if n_candidates > 0:
        keep_likeliest(b, hypotheses, candidates, weights, n_candidates)
    else:
        # Red is neither B_line nor Meander, or the belief has dropped the true hypothesis before.
        # The hypotheses stay as they were.
        b.is_refuted = True


@compiled
def decoy_sets_seen(b: Any, h: Any, t: Any, host: int, sets: Any) -> tuple[int, int]:
    """Write the sets of decoys that Red may see on a host. In CAGE-1, Blue does not know the kinds.

    sets: DECOY_SET `[MAX_DECOY_SETS]`. A set's weight counts the equivalent sets for which this set
    stands, see `red_hypothesis.symmetry_weight`. Return the number of written sets, and the number
    of all possible sets."""
    drawn = int(h.drawn[host])
    possible = red_hypothesis.possible_decoys(t, host) & ~drawn
    fresh = possible & ~int(h.decoys_when_scanned[host])
    n_undrawn = count_bits(b.decoys[host]) - count_bits(drawn)
    n_sets, n_choices = 0, 0
    # `further` goes through all subsets of `possible`, from the whole set to the empty set.
    further = possible
    while True:
        if count_bits(further) == n_undrawn:
            n_choices += 1
            weight = red_hypothesis.symmetry_weight(further, fresh)
            if weight:
                sets[n_sets].decoys = drawn | further
                sets[n_sets].weight = weight
                n_sets += 1
        if further == 0:
            return n_sets, n_choices
        # Subtracting 1 and masking gives the next smaller subset.
        further = (further - 1) & possible


@compiled
def note_decoys(b: Any, t: Any, kind: int, host: int) -> int:
    """Update `b.decoys` with Blue's action. Return the host of a new decoy, or NONE."""
    if tables.RESETS[kind]:
        b.decoys[host] = 0
    if kind == tables.MISINFORM:
        # Blue does not know the kinds of Misinform's decoys. The number of bits counts the decoys.
        if count_bits(b.decoys[host]) == count_bits(red_hypothesis.possible_decoys(t, host)):
            return NONE
        b.decoys[host] = (b.decoys[host] << 1) | 1
        return host
    if not tables.FIRST_DECOY <= kind <= tables.LAST_DECOY:
        return NONE
    decoy = kind - tables.FIRST_DECOY
    ports_in_use = red_hypothesis.decoy_ports(b.decoys[host])
    if not DECOY_FITS[host, decoy] or ((ports_in_use >> tables.DECOY_FREE_PORT[decoy]) & 1):
        return NONE
    b.decoys[host] |= 1 << decoy
    return host


@compiled
def keep_likeliest(b: Any, hypotheses: Any, candidates: Any, weights: Any, n: int) -> None:
    """Merge equal candidates among the first n, and keep the likeliest candidates as hypotheses.

    weights `[N_CANDIDATES]` need not add up to 1."""
    total = 0.0
    for i in range(n):
        total += weights[i]
        for j in range(i):
            if weights[j] > 0 and red_hypothesis.is_same(candidates[i], candidates[j]):
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
def show_belief(
    b: Any, t: Any, of_use: Any, hypotheses: Any, obs: Any, probabilities: Any, shown: Any
) -> None:
    """Write the belief's observation, shown uint8 `[n_shown(K)]`: obs, then the belief as bits.

    of_use: see `decoys_of_use`. probabilities `[N_PROBABILITIES]`: working space."""
    column = len(obs)
    shown[:column] = obs
    likeliest = hypotheses[0]
    for i in range(len(of_use)):
        host, decoy = of_use[i]
        place = decoy
        # In CAGE-1, the bits of `b.decoys` only count the decoys: see `note_decoys`.
        if t.is_cage1:
            place = count_bits(red_hypothesis.possible_decoys(t, host) & ((1 << decoy) - 1))
        shown[column] = (b.decoys[host] >> place) & 1
        shown[column + 1] = (likeliest.decoys_when_scanned[host] >> decoy) & 1
        column += 2
    kind, targets = red_hypothesis.reds_options(likeliest, t)
    for hosts in (
        int64(likeliest.known_addresses),
        int64(likeliest.scanned_by_session | likeliest.meander_scanned),
        int64(likeliest.meander_exploited),
        int64(likeliest.meander_escalated),
        int64(likeliest.meander_mapped),
        int64(likeliest.has_malware),
        targets,
    ):
        for host in range(N_HOSTS):
            shown[column + host] = (hosts >> host) & 1
        column += t.n_hosts
    for i in range(len(RED_ACTIONS)):
        shown[column + i] = kind == i
    column += len(RED_ACTIONS)
    sum_up(b, t, hypotheses, probabilities)
    for i in range(N_PROBABILITIES):
        for threshold in THRESHOLDS:
            shown[column] = probabilities[i] > threshold
            column += 1


@compiled
def sum_up(b: Any, t: Any, hypotheses: Any, probabilities: Any) -> None:
    """Write the probabilities that the observation shows, `[N_PROBABILITIES]`.

    Each contested host has four: Red has sessions there, Remove would end all these sessions, Red
    owns the host, and Red exploits the host next. The rest are: B_line attacks, and, for each of
    B_line's actions, B_line takes this action next."""
    probabilities[:] = 0
    for n in range(b.n_hypotheses):
        h, probability = hypotheses[n], b.probability[n]
        kind, targets = red_hypothesis.reds_options(h, t)
        exploited_next = targets if kind == tables.EXPLOIT else int64(0)
        n_targets = max(count_bits(int(exploited_next)), 1)
        for i in range(len(CONTESTED)):
            host = CONTESTED[i]
            if (h.sessions >> host) & 1:
                probabilities[4 * i] += probability
            if (h.removable >> host) & 1:
                probabilities[4 * i + 1] += probability
            if (h.is_owned >> host) & 1:
                probabilities[4 * i + 2] += probability
            if (exploited_next >> host) & 1:
                probabilities[4 * i + 3] += probability / n_targets
        if h.red_agent == B_LINE:
            probabilities[N_OF_HOSTS] += probability
            probabilities[N_OF_HOSTS + 1 + next_of_b_line(h)] += probability


@entry_point
def begin_beliefs(
    beliefs: Any, networks: Any, of_use: Any, chosen: Any, hypotheses: Any, obs: Any, shown: Any
) -> None:
    """Begin an episode in each of the M chosen beliefs.

    networks: the scenario's record `[1]`. of_use: see `decoys_of_use`. hypotheses: `[N,
    N_HYPOTHESES]`. obs: uint8 `[M, 52]`. shown: uint8 `[M, n_shown(K)]`, written."""
    probabilities, t = np.zeros(N_PROBABILITIES), networks[0]
    for i in range(len(chosen)):
        b, possible = beliefs[chosen[i]], hypotheses[chosen[i]]
        # Red is B_line or Meander, with equal probabilities.
        b.n_hypotheses = 2
        b.is_refuted = False
        b.decoys[:] = 0
        red_hypothesis.begin_hypothesis(possible[0], t, B_LINE)
        red_hypothesis.begin_hypothesis(possible[1], t, MEANDER)
        b.probability[0] = b.probability[1] = 0.5
        show_belief(b, t, of_use, possible, obs[i], probabilities, shown[i])


@entry_point
def conclude_steps(
    beliefs: Any,
    networks: Any,
    of_use: Any,
    chosen: Any,
    hypotheses: Any,
    candidates: Any,
    sets: Any,
    actions: Any,
    obs: Any,
    shown: Any,
) -> None:
    """Update each of the M chosen beliefs with a step.

    actions: int64 `[M]`. obs: uint8 `[M, 52]`, after the actions. shown: uint8 `[M, n_shown(K)]`,
    written. candidates `[N_CANDIDATES]`, sets `[MAX_DECOY_SETS]`: working space."""
    odds, weights = np.zeros(red_hypothesis.N_OUTCOMES), np.zeros(N_CANDIDATES)
    probabilities, t = np.zeros(N_PROBABILITIES), networks[0]
    for i in range(len(chosen)):
        belief, possible = beliefs[chosen[i]], hypotheses[chosen[i]]
        conclude(belief, t, possible, actions[i], obs[i], candidates, odds, weights, sets)
        show_belief(belief, t, of_use, possible, obs[i], probabilities, shown[i])
