"""Rules on the belief: which Analyse or decoy is worth most, and a team that plays by rules alone.

Each agent analyses a host, or deploys a decoy, on which red's exploits fail. If Analyse found
`escalate.sh` on a host, the agent restores this host instead. The agent also removes shells, and
restores some of the hosts from which red attacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.belief import (
    ANALYSE,
    DECOY,
    FIRST,
    IS_USER,
    N_AGENTS,
    N_PLACES,
    OWNERS,
    REMOVE,
    RESTORE,
    Belief,
    Bits,
    Joint,
)
from workflow_rl.cage4.agent.blue_team import BlueSees
from workflow_rl.cage4.scenario import scenario4

Floats = NDArray[np.float64]
_SLEEP = np.array(scenario4.SLEEP_ACTIONS)
_PHASE_ENDS = (*scenario4.PHASE_STARTS[1:], scenario4.MAX_STEPS)
_IS_ENTRANCE = np.zeros((len(OWNERS), N_PLACES), np.bool_)
_IS_ENTRANCE[[0, 2, 6], 0] = True
"""Entrances are the first servers of restricted zone A, restricted zone B and the public access
zone, which are next to the contractor's network. Red knows the entrances from the beginning. While
red exploits a decoy on an entrance, red does no Impact."""


class Rules(NamedTuple):
    """The numbers of the rules. Their values were chosen on episodes that no report uses.

    server: the worth of analysing a server, per step since its last Analyse. A user's host has the
        worth 1 per step, because phishing mails open sessions on users' hosts alone.
    shell, source, removed: what a shell on a host, the first attack from the host, or a Remove on
        the host adds to the worth of the host's next Analyse.
    decoy, entrance: the worth of the first decoy on a user's host, and on an entrance. Other
        servers get no decoy.
    next_decoy: the worth of a further decoy, as a share of the worth of the decoy before it.
    lead: all sources in a zone are restored from this many steps before its decisive phase.
    taken: if red took this many hosts from one source, the agent restores the source.
    last: the number of last steps in which a Restore or Remove does not pay."""

    server: float = 0.29
    shell: float = 150
    source: float = 120
    removed: float = 180
    decoy: float = 100
    entrance: float = 500
    next_decoy: float = 0.5
    lead: int = 31
    taken: int = 4
    last: int = 32


RULES = Rules()
ROBUST_RULES = RULES._replace(lead=80, taken=2)
"""For all `scenario4.SCENARIOS`. In some scenarios, red is faster or sends more phishing mails."""


def worth_of_analysing(belief: Belief, envs: Any, rules: Rules = RULES) -> Floats:
    """Return what an Analyse of each host is worth, `[M, 7, 16]`; -1 if the host does not exist."""
    analysed = belief.analysed[envs]
    waited = belief.step[envs][:, None, None] - analysed
    worth = 1 + waited * np.where(IS_USER, 1, rules.server)
    worth += rules.shell * (belief.attacked[envs] > analysed)
    worth += rules.source * (belief.suspected[envs] > analysed)
    worth += rules.removed * belief.removed[envs]
    return np.where(belief.exists[envs], worth, -1)


def worth_of_decoys(belief: Belief, envs: Any, rules: Rules = RULES) -> Floats:
    """Return what one more decoy on each host is worth, `[M, 7, 16]`; below 0 if it is useless."""
    on_servers = np.where(_IS_ENTRANCE, rules.entrance, -1)
    first = np.where(IS_USER, rules.decoy, on_servers)
    is_clean = belief.exists[envs] & ~belief.shell[envs] & ~belief.root[envs]
    return np.where(is_clean, first * rules.next_decoy ** belief.decoys[envs], -1)


def _routine(belief: Belief, envs: Any, rules: Rules) -> tuple[Joint, Floats]:
    """Return the kind of action for each host, and its worth, `[M, 7, 16]` each. The kind is
    ANALYSE or DECOY. The kind is 0 if the host does not exist, or the episode is about to end."""
    analysis = worth_of_analysing(belief, envs, rules)
    decoy = worth_of_decoys(belief, envs, rules)
    kinds = np.where(analysis >= 0, ANALYSE, 0)
    kinds[decoy > analysis] = DECOY
    kinds[remaining(belief, envs) <= 1] = 0
    return kinds, np.maximum(analysis, decoy)


def sweep(belief: Belief, envs: Any, rules: Rules = RULES) -> Joint:
    """Return the Analyse or DeployDecoy `[M, 5]` that is worth most to each agent, or a Sleep."""
    return most_urgent(*_routine(belief, envs, rules))


def most_urgent(kinds: Joint, urgency: Floats) -> Joint:
    """Return each agent's action `[M, 5]` on its most urgent host, or a Sleep.

    kinds: `[M, 7, 16]`, the kind of action that each host needs, 0 for none. urgency: `[M, 7, 16]`.
    """
    actions = np.tile(np.array(scenario4.SLEEP_ACTIONS), (len(kinds), 1))
    rows = np.arange(len(kinds))
    for agent in range(N_AGENTS):
        zones = np.flatnonzero(agent == OWNERS)
        of_agent = slice(zones[0], zones[-1] + 1)
        place = urgency[:, of_agent].reshape(len(kinds), -1).argmax(1)
        kind = kinds[:, of_agent].reshape(len(kinds), -1)[rows, place]
        acts = kind > 0
        actions[acts, agent] = (FIRST[kind, agent] + place)[acts]
    return actions


def ruled(belief: Belief, envs: Any, rules: Rules = RULES) -> Joint:
    """Return the actions `[M, 5]` of the team of rules, as if no agent were busy."""
    exists, shell = belief.exists[envs], belief.shell[envs]
    root, source = belief.root[envs], belief.source[envs]
    kinds, urgency = _routine(belief, envs, rules)
    waited = belief.step[envs][:, None, None] - belief.analysed[envs]
    is_pressing = _is_decisive(belief.step[envs], rules.lead) | (
        belief.n_restores[envs][:, OWNERS] == 0
    )
    restores = source & (is_pressing[:, :, None] | (belief.n_taken[envs] >= rules.taken))
    # A later entry is more urgent, and replaces the kind that an earlier entry set.
    ranked: tuple[tuple[Bits, int], ...] = (
        (restores, RESTORE),
        (shell, REMOVE),
        (shell & source, RESTORE),
        (root, RESTORE),
    )
    pays = (remaining(belief, envs) > rules.last)[:, None, None]
    for rank, (hosts, kind) in enumerate(ranked, start=1):
        hosts = hosts & exists & pays
        kinds[hosts] = kind
        urgency[hosts] = rank * 1e6 + waited[hosts]
    return most_urgent(kinds, urgency)


def remaining(belief: Belief, envs: Any) -> Joint:
    """Return how many more steps the challenge counts `[M]`. The challenge has no step from 500 on.
    For such a step of a longer episode, return a large number: the step's number."""
    step = belief.step[envs]
    return np.where(step < scenario4.MAX_STEPS, scenario4.COUNTED_STEPS - step, step)


def _is_decisive(step: Joint, lead: int) -> Bits:
    """Return which zones `[M, 7]` are in their decisive phase, or at most `lead` steps before it.
    step: `[M]`."""
    decisive = np.zeros((len(step), len(OWNERS)), np.bool_)
    for zone, phase in scenario4.DECISIVE_PHASES:
        start = scenario4.PHASE_STARTS[phase] - lead
        decisive[:, zone] |= (step >= start) & (step < _PHASE_ENDS[phase])
    return decisive


class RuleTeam:
    """The team of rules. See `blue_team.BlueTeam`."""

    reads_raw = True

    def __init__(self, n_envs: int = 1, rules: Rules = RULES) -> None:
        self._rules = rules
        self.belief = Belief(n_envs)
        self._is_free = np.ones((n_envs, N_AGENTS), np.bool_)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        self.belief.begin(envs, masks, seen.raw)
        self._is_free[envs] = True

    def act(self, envs: Sequence[int]) -> tuple[Joint, None]:
        advice = ruled(self.belief, envs, self._rules)
        return np.where(self._is_free[envs], advice, _SLEEP), None

    def see(self, envs: Sequence[int], taken: Joint, seen: BlueSees) -> None:
        self.belief.begin_actions(envs, taken)
        self.belief.update(envs, seen.raw)
        self._is_free[envs] = seen.busy == 0
