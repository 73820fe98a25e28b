"""Episodes as Blue believes them to be: a model of CAGE-2 that is made of hypotheses alone.

Red's next steps, their traces and the rewards depend on nothing but what a hypothesis holds. So a
hypothesis can replace the simulator where an episode goes on that Blue has seen in part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import blue_belief, observe, red_hypothesis, tables
from workflow_rl.cage2.compiled.jit import compiled, entry_point, int64

# What a hypothesis leaves out: the compromise that Blue has seen, and what `reward` reads. The OT
# service stops only once, because a backup lists it without its PID.
REST = np.dtype(
    [
        ("compromise", np.uint32, 1),
        ("is_owned", np.uint16),
        ("ot_running", np.uint8, 1),
        ("ot_can_stop", np.bool_),
    ],
    align=True,
)


@entry_point
def imagine_steps(
    truths: Any,
    networks: Any,
    beliefs: Any,
    hypotheses: Any,
    rest: Any,
    actions: Any,
    uniform: Any,
    rewards: Any,
    shown: Any,
) -> None:
    """Play a step in each of N episodes.

    networks: Scenario 2's record `[1]`. truths: HYPOTHESIS `[N]`, what is true. beliefs `[N]`,
    hypotheses `[N, N_HYPOTHESES]`: what Blue believes. rest: REST `[N]`. All four are updated.
    actions: int64 `[N]`. uniform: `[N, 2]`, draws from 0 to 1 for Red's target and for the outcome.
    rewards: float64 `[N]`, written. shown: uint8 `[N, D]`, written.
    """
    odds, weights = np.zeros(red_hypothesis.N_OUTCOMES), np.zeros(blue_belief.N_CANDIDATES)
    probabilities = np.zeros(blue_belief.N_PROBABILITIES)
    candidates = np.zeros(blue_belief.N_CANDIDATES, red_hypothesis.HYPOTHESIS)
    met = np.zeros(blue_belief.MOST_MET, blue_belief.MET)
    copy = np.zeros(1, blue_belief.BELIEF)
    words = np.zeros(blue_belief.N_HOSTS, np.uint32)
    obs = words.view(np.uint8)
    t = networks[0]
    for n in range(len(truths)):
        h, s = truths[n], rest[n]
        kind, host = int64(t.action_kind[actions[n]]), int64(t.action_host[actions[n]])
        copy[0] = beliefs[n]
        new_decoy_host = blue_belief.note_decoys(copy[0], t, kind, host)
        red_hypothesis.after_blue(h, kind, host)
        if kind == tables.RESTORE and t.ot_number[host] != tables.NONE:
            s.ot_running[0], s.ot_can_stop = True, False
        found = kind == tables.ANALYSE and h.has_malware >> host & 1 != 0
        options = red_hypothesis.reds_options(h, t)
        red_kind, targets = int(options[0]), int(options[1])
        target, activity = 0, observe.NO_ACTIVITY
        if targets != 0:
            target = drawn_bit(targets, uniform[n, 0])
            # A subnet's number is read as a host's here, but the decoys there have no effect.
            decoys = int(copy[0].decoys[target])
            is_new = new_decoy_host == target
            draw, outcome = uniform[n, 1], red_hypothesis.FAILED
            for looks in (observe.NO_ACTIVITY, observe.SCAN, observe.EXPLOITED):
                odds[:] = 0
                red_hypothesis.odds_of(h, t, red_kind, target, looks, decoys, is_new, odds)
                for i in range(red_hypothesis.N_OUTCOMES):
                    if odds[i] > 0 and draw >= 0:
                        activity, outcome = looks, i
                        draw -= odds[i]
            red_hypothesis.after_red(h, t, red_kind, target, outcome, decoys)
            if red_kind == tables.IMPACT and outcome == red_hypothesis.DONE and s.ot_can_stop:
                s.ot_running[0] = False
        observe.note_and_show(s, t, kind, host, activity, target, found, words)
        blue_belief.conclude(
            beliefs[n], t, hypotheses[n], actions[n], obs, candidates, odds, weights, met
        )
        blue_belief.show_belief(
            *(beliefs[n], t, blue_belief.WORTH_A_DECOY, hypotheses[n], obs, probabilities),
            shown[n],
        )
        s.is_owned = h.is_owned
        rewards[n] = observe.reward(s, t, kind)


@compiled
def drawn_bit(mask: int, uniform: float) -> int:
    """Return the number of one of a mask's bits, by a draw from 0 to 1."""
    n_before = int(uniform * observe.count_bits(mask))
    for i in range(blue_belief.N_HOSTS):
        if mask >> i & 1:
            if n_before == 0:
                return i
            n_before -= 1
    return 0
