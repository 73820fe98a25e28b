"""The programs of `FiniteStateRedAgent` and `DiscoveryFSRed`, as tables."""

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled import actions

FINITE_STATE, DISCOVERY, RANDOM_SELECT, SLEEPING, FROM_OUTSIDE = range(5)
"""The numbers of `scenario4.RED_CLASSES`."""

STATES = ("K", "KD", "S", "SD", "U", "UD", "R", "RD", "F")
K, KD, S, SD, U, UD, R, RD, F = range(9)
N_STATES = 9
HAS_SESSION = np.array(["U" in name or "R" in name for name in STATES])


def _transitions() -> Any:
    """Return `[9, 10]`, by a host's state and an action's kind: the state after a success."""
    following = np.repeat(np.arange(N_STATES)[:, None], actions.N_RED_ACTIONS, axis=1)
    for before, discovered in ((K, KD), (S, SD), (U, UD), (R, RD)):
        following[before, actions.DISCOVER] = discovered
    for before, after in ((K, S), (KD, SD)):
        following[before, actions.AGGRESSIVE_SCAN] = following[before, actions.STEALTH_SCAN] = after
    for before, kind, after in (
        (S, actions.EXPLOIT, U),
        (SD, actions.EXPLOIT, UD),
        (U, actions.ESCALATE, R),
        (UD, actions.ESCALATE, RD),
        (U, actions.WITHDRAW, S),
        (UD, actions.WITHDRAW, SD),
        (R, actions.WITHDRAW, S),
        (RD, actions.WITHDRAW, SD),
    ):
        following[before, kind] = after
    return following


FOLLOWING = _transitions()

_PLANS: tuple[dict[int, dict[int, float]], ...] = (
    {
        K: {actions.DISCOVER: 0.5, actions.AGGRESSIVE_SCAN: 0.25, actions.STEALTH_SCAN: 0.25},
        KD: {actions.AGGRESSIVE_SCAN: 0.5, actions.STEALTH_SCAN: 0.5},
        S: {actions.DISCOVER: 0.25, actions.EXPLOIT: 0.5, actions.DECEPTION: 0.25},
        SD: {actions.EXPLOIT: 0.75, actions.DECEPTION: 0.25},
        U: {actions.DISCOVER: 0.5, actions.ESCALATE: 0.5},
        UD: {actions.ESCALATE: 1.0},
        R: {actions.DISCOVER: 0.5, actions.DEGRADE: 0.25, actions.IMPACT: 0.25},
        RD: {actions.DEGRADE: 0.5, actions.IMPACT: 0.5},
    },
    {
        K: {actions.DISCOVER: 0.25, actions.AGGRESSIVE_SCAN: 0.75},
        KD: {actions.AGGRESSIVE_SCAN: 1.0},
        S: {actions.DISCOVER: 0.25, actions.EXPLOIT: 0.75},
        SD: {actions.EXPLOIT: 1.0},
        U: {actions.ESCALATE: 1.0},
        UD: {actions.ESCALATE: 1.0},
        R: {actions.DISCOVER: 1.0},
        RD: {actions.DEGRADE: 0.5, actions.IMPACT: 0.5},
    },
)
"""The probability of each action, by program and host state. Actions with the probability 0 are
missing, because they would change no draw."""


def _plans() -> tuple[Any, Any, Any]:
    """Return the number of options, the options, and the cumulated sums of the options'
    probabilities, each by program and state."""
    n_options = np.zeros((2, N_STATES), np.int64)
    options = np.zeros((2, N_STATES, 4), np.int64)
    cumulated = np.zeros((2, N_STATES, 4))
    for agent, plan in enumerate(_PLANS):
        for state, chances in plan.items():
            n_options[agent, state] = len(chances)
            options[agent, state, : len(chances)] = list(chances)
            sums = np.cumsum(list(chances.values()))
            cumulated[agent, state, : len(chances)] = sums / sums[-1]
    return n_options, options, cumulated


N_OPTIONS, OPTIONS, CUMULATED = _plans()
# The weight with which DiscoveryFSRed chooses a host in each state.
PRIORITY = np.array([20, 20, 20, 20, 10, 10, 0, 0, 0], np.float64)
PRIORITY_BASE = 100.0
SERVER_RATE = 0.75
