"""What Blue's policy sees of CAGE-2, and an actor that plays such a policy on the bits of hosts.

`viewed_envs` has the envs that the policy learns in. This module needs NumPy and `agents` alone,
because submissions contain a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage2.agent.action_sets import ActionSet
from workflow_rl.cage2.agent.history_counts import (
    N_OF_ALL,
    N_OF_HOST,
    HistoryCounts,
    columns_of_evidence,
)
from workflow_rl.cage2.agent.network_facts import (
    FACTS,
    Indices,
    NetworkFacts,
    scenarios_in,
    with_rows,
)
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.tables import Tables

Bits = NDArray[np.uint8]


class Sees(Protocol):
    """What Blue sees in several envs, numbered from 0. It has to be told every step."""

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """Begin episodes in M envs: return what Blue sees, uint8 [M, D], given obs [M, 4 H]."""

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """Return what Blue sees, uint8 [M, D], given obs [M, 4 H] after its actions [M]."""


class View:
    """A `Sees` with one of the observations `table`, `belief`, `evidence` and `history`.

    A belief comes first, which begins with the bits of the hosts. Without it, each host's bits are
    followed by the host's facts, if policies are told them, and by its past. Then come the past of
    the whole network, and which hosts are joined. `evidence` is the belief, whether Red has
    refuted it, and the past, which holds whoever attacks.

    playing: see `BlueDecoys`. n_shown: D.
    """

    def __init__(
        self, observation: str, facts: NetworkFacts, playing: Indices | None = None
    ) -> None:
        has_belief, has_past = observation in BELIEVING, observation in REMEMBERING
        self._facts, self._playing = facts, playing
        self._belief = BlueBelief(tables_of(facts.scenarios[0])) if has_belief else None
        self._past = HistoryCounts(facts, playing) if has_past else None
        self._past_columns = columns_of_evidence(facts) if has_belief and has_past else None
        n_hosts = facts.n_hosts
        if self._belief is not None:
            past = 0 if self._past_columns is None else 1 + len(self._past_columns)
            self.n_shown = self._belief.n_shown + past
        else:
            per_host = columns_per_host(observation, facts)
            edges = 2 * n_hosts**2 if facts.tells_edges else 0
            self.n_shown = n_hosts * per_host + (N_OF_ALL if has_past else 0) + edges

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        if self._past is not None:
            self._past.begin(envs)
        if self._belief is not None:
            return self._with_evidence(envs, self._belief.begin(envs, obs))
        return self._rows(envs, obs)

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        if self._past is not None:
            self._past.after(envs, actions, obs)
        if self._belief is not None:
            return self._with_evidence(envs, self._belief.after(envs, actions, obs))
        return self._rows(envs, obs)

    def _with_evidence(self, envs: Sequence[int], believed: Bits) -> Bits:
        if self._belief is None or self._past is None:
            return believed
        m, refuted = len(envs), self._belief.is_refuted(envs)
        past = [self._past.of_hosts(envs).reshape(m, -1), self._past.of_all(envs)]
        shown = np.concatenate(past, axis=1)[:, self._past_columns]
        return np.concatenate([believed, refuted[:, None], shown], axis=1)

    def _rows(self, envs: Sequence[int], obs: Bits) -> Bits:
        scenarios, m = scenarios_in(self._playing, envs), len(envs)
        of_hosts, of_all = [obs.reshape(m, -1, 4)], list[NDArray[Any]]()
        if self._facts.are_told:
            of_hosts.append(self._facts.facts[scenarios])
        if self._past is not None:
            of_hosts.append(self._past.of_hosts(envs))
            of_all.append(self._past.of_all(envs))
        if self._facts.tells_edges:
            of_all.append(self._facts.joined[scenarios].reshape(m, -1).astype(np.uint8))
        return np.concatenate([np.concatenate(of_hosts, axis=2).reshape(m, -1), *of_all], axis=1)


BELIEVING, REMEMBERING = ("belief", "evidence"), ("history", "evidence")
"""The observations that show a belief, and the past."""


def columns_per_host(observation: str, facts: NetworkFacts) -> int:
    """Return the number of columns about each host in a view without a belief."""
    of_facts = len(FACTS) if facts.are_told else 0
    return 4 + of_facts + (N_OF_HOST if observation in REMEMBERING else 0)


class BlueBelief:
    """What Blue concludes from the whole episode: see `Sees` and `compiled.blue_belief`.

    beliefs: `[N]`, by env. hypotheses: `[N, N_HYPOTHESES]`, by env.
    """

    def __init__(self, tables: Tables) -> None:
        from workflow_rl.cage2.compiled.red_hypothesis import HYPOTHESIS

        blue_belief = _blue_belief()
        of_use = blue_belief.decoys_of_use(tables)
        self._scenario = tables.record, of_use
        self.n_shown = blue_belief.n_shown(len(of_use))
        self.beliefs = np.zeros(0, blue_belief.BELIEF)
        self.hypotheses = np.zeros((0, blue_belief.N_HYPOTHESES), HYPOTHESIS)
        candidates = np.zeros(blue_belief.N_CANDIDATES, HYPOTHESIS)
        sets = np.zeros(blue_belief.MAX_DECOY_SETS, blue_belief.DECOY_SET)
        self._working = candidates, sets

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        self.beliefs = with_rows(self.beliefs, max(envs) + 1)
        self.hypotheses = with_rows(self.hypotheses, max(envs) + 1)
        shown = np.empty((len(obs), self.n_shown), np.uint8)
        known = self.beliefs, *self._scenario, np.array(envs), self.hypotheses
        _blue_belief().begin_beliefs(*known, plain(obs), shown)
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        shown = np.empty((len(obs), self.n_shown), np.uint8)
        known = self.beliefs, *self._scenario, np.array(envs), self.hypotheses
        _blue_belief().conclude_steps(*known, *self._working, actions, plain(obs), shown)
        return shown

    def is_refuted(self, envs: Sequence[int]) -> Bits:
        """Return whether Red has done what no hypothesis explains, in M envs."""
        refuted: Bits = self.beliefs["is_refuted"][envs].astype(np.uint8)
        return refuted


def _blue_belief() -> Any:
    # Imported only where it is needed: importing numba takes half a second.
    from workflow_rl.cage2.compiled import blue_belief

    return blue_belief


def plain(obs: Bits) -> Bits:
    """Return the bits in the one memory layout that compiled code accepts."""
    return np.array(obs, np.uint8, order="C")


class ViewingActor:
    """An actor of `ViewedEnvs` that plays on the bits of hosts, with all actions.

    facts: what Blue knows of the scenario that it plays.
    """

    def __init__(
        self,
        actor: Actor,
        observation: str,
        actions: str,
        opening: Sequence[str],
        facts: NetworkFacts,
    ) -> None:
        self.actor = actor
        self.policy_version = actor.policy_version
        self._n_bits, self.n_actions = 4 * facts.n_hosts, len(facts.named)
        self._view = View(observation, facts)
        self._actions = ActionSet(actions, facts)
        self._opening = [facts.named.index(name) for name in opening]
        # By env: the number of actions so far, and the last one.
        self._made: dict[int, tuple[int, int]] = {}

    def ask(self, **asked: Any) -> None:
        """Ask something of the actor from now on, such as an order. Raises ValueError."""
        if not hasattr(self.actor, "ask"):
            raise ValueError(f"this agent takes no {' and no '.join(asked)}")
        self.actor.ask(**asked)

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode in env number `env`: see Actor."""
        assert n_acted == 0, "what the agent remembers of the steps before is not known"
        self.actor.reset(seed, env)
        self._actions.begin([env])
        self._made[env] = 0, 0

    def meant(self, env: int = 0) -> Indices:
        """Return the actions that the policy's choices would be now in env number `env`."""
        if env not in self._made:
            self.reset(0, env)
        return self._actions.chosen([env] * self._actions.n, np.arange(self._actions.n))

    def act(self, obs: NDArray[np.uint8], envs: Sequence[int] = (0,)) -> Choice:
        """Return Blue's actions for obs [M, 4 H], and log-probabilities: see Actor.

        Actions of the opening have probability 1.
        """
        obs = np.atleast_2d(obs)
        # Compiled code does not check, and would read beyond a shorter array.
        if obs.shape != (len(envs), self._n_bits) or not ((obs == 0) | (obs == 1)).all():
            raise ValueError(f"observations are zeros and ones, ({len(envs)}, {self._n_bits})")
        for env in envs:
            if env not in self._made:
                self.reset(0, env)
        seen = self._seen(obs, envs)
        made = [self._made[env][0] for env in envs]
        free = [row for row, n in enumerate(made) if n >= len(self._opening)]
        actions = np.array([self._opening[n] if n < len(self._opening) else 0 for n in made])
        log_probs = np.zeros(len(envs), np.float32)
        if free:
            playing = [envs[row] for row in free]
            masked = self._actions.with_masks(seen[free], playing)
            choices, log_probs[free] = self.actor.act(masked, playing)
            actions[free] = self._actions.chosen(playing, choices)
        self._actions.after(envs, actions)
        for env, n, action in zip(envs, made, actions.tolist(), strict=True):
            self._made[env] = n + 1, action
        return actions, log_probs

    def _seen(self, obs: Bits, envs: Sequence[int]) -> Bits:
        seen = np.empty((len(obs), self._view.n_shown), np.uint8)
        begins = np.array([self._made[env][0] == 0 for env in envs])
        if rows := np.flatnonzero(begins).tolist():
            seen[rows] = self._view.begin([envs[row] for row in rows], obs[rows])
        if rows := np.flatnonzero(~begins).tolist():
            going_on = [envs[row] for row in rows]
            last = np.array([self._made[env][1] for env in going_on])
            seen[rows] = self._view.after(going_on, last, obs[rows])
        return seen
