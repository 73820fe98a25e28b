"""What Blue's policy sees of CAGE-2, and an actor that plays such a policy on the 52 bits.

`viewed_envs` has the envs that the policy learns in. This module needs NumPy and `agents` alone,
because submissions contain a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage2.agent.action_sets import Indices, make_action_set, with_rows
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS

if TYPE_CHECKING:
    from workflow_rl.cage2.agent.network_facts import NetworkFacts
    from workflow_rl.cage2.scenario.scenario import Scenario

TABLE_SIZE = 4 * len(HOSTS)

Bits = NDArray[np.uint8]


class View:
    """What Blue sees in several envs, numbered from 0: the 52 bits, or more in a subclass.

    It has to be told every step.
    """

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """Begin episodes in M envs: return what Blue sees, uint8 [M, D], given obs [M, 52]."""
        return obs

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """Return what Blue sees, uint8 [M, D], given obs [M, 52] after its actions [M].

        Actions are indices into ACTION_NAMES.
        """
        return obs


class BeliefView(View):
    """The 52 bits, and what Blue concludes from the whole episode: see `compiled.blue_belief`.

    scenario: None stands for Scenario 2.

    beliefs: `[N]`, by env. hypotheses: `[N, N_HYPOTHESES]`, by env.
    """

    def __init__(self, scenario: Scenario | None = None) -> None:
        from workflow_rl.cage2.compiled.red_hypothesis import HYPOTHESIS

        belief = _blue_belief()
        of = belief.SCENARIO2 if scenario is None else tables_of(scenario)
        self._scenario = of.record, belief.decoys_of_use(of)
        self.beliefs = np.zeros(0, belief.BELIEF)
        self.hypotheses = np.zeros((0, belief.N_HYPOTHESES), HYPOTHESIS)
        candidates = np.zeros(belief.N_CANDIDATES, HYPOTHESIS)
        self._working = candidates, np.zeros(belief.MAX_DECOY_SETS, belief.DECOY_SET)

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        self.beliefs = with_rows(self.beliefs, max(envs) + 1)
        self.hypotheses = with_rows(self.hypotheses, max(envs) + 1)
        belief, shown = _blue_belief(), self._empty(obs)
        known = self.beliefs, *self._scenario, np.array(envs), self.hypotheses
        belief.begin_beliefs(*known, plain(obs), shown)
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        belief, shown = _blue_belief(), self._empty(obs)
        known = self.beliefs, *self._scenario, np.array(envs), self.hypotheses
        belief.conclude_steps(*known, *self._working, actions, plain(obs), shown)
        return shown

    def _empty(self, obs: Bits) -> Bits:
        n_shown = _blue_belief().n_shown(len(self._scenario[1]))
        return np.empty((len(obs), n_shown), np.uint8)


class EvidenceView(BeliefView):
    """The belief, whether Red has refuted it, and `history_counts`, which hold whoever attacks."""

    def __init__(self) -> None:
        from workflow_rl.cage2.agent.history_counts import HistoryCounts

        super().__init__()
        self._history = HistoryCounts()

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        return self._with(envs, super().begin(envs, obs), self._history.begin(envs))

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        shown = super().after(envs, actions, obs)
        return self._with(envs, shown, self._history.after(envs, actions, obs))

    def _with(self, envs: Sequence[int], shown: Bits, counts: Bits) -> Bits:
        refuted = self.beliefs["is_refuted"][envs, None].astype(np.uint8)
        return np.concatenate([shown, refuted, counts], axis=1)


def _blue_belief() -> Any:
    # Imported only where it is needed: importing numba takes half a second.
    from workflow_rl.cage2.compiled import blue_belief

    return blue_belief


def plain(obs: Bits) -> Bits:
    """Return the bits in the one memory layout that compiled code accepts."""
    return np.array(obs, np.uint8, order="C")


def make_view(
    observation: str, known: NetworkFacts | None = None, playing: Indices | None = None
) -> View:
    """Return the view of this name, which is not the true state: Blue does not see that.

    known: see `ViewingActor`. playing: see `action_sets.BlueActions`.
    """
    assert observation != "true-state"
    if known is not None and observation == "belief":
        return BeliefView(known.scenarios[0])
    if known is not None:
        return known.view(observation, playing)
    return {"table": View, "belief": BeliefView, "evidence": EvidenceView}[observation]()


class ViewingActor:
    """An actor of `ViewedEnvs` that plays on the 52 bits with all 145 actions.

    known: what Blue knows of the scenario, for views and action sets of any network. Then the bits
    and actions are those of that scenario.
    """

    def __init__(
        self,
        actor: Actor,
        observation: str,
        actions: str,
        opening: Sequence[str] = (),
        known: NetworkFacts | None = None,
    ) -> None:
        self.actor = actor
        self.policy_version = actor.policy_version
        self._n_bits = TABLE_SIZE if known is None else 4 * known.n_hosts
        self.n_actions = len(ACTION_NAMES if known is None else known.named)
        self._view = make_view(observation, known)
        self._actions = make_action_set(actions, known=known)
        self._opening = [ACTION_NAMES.index(name) for name in opening]
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
        """Return Blue's actions for obs [M, 52], and log-probabilities: see Actor.

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
        going_on = np.array([self._made[env][0] > 0 for env in envs])
        shown = []
        for rows in (np.flatnonzero(~going_on).tolist(), np.flatnonzero(going_on).tolist()):
            chosen = [envs[row] for row in rows]
            if chosen and going_on[rows[0]]:
                last = np.array([self._made[env][1] for env in chosen])
                shown.append((rows, self._view.after(chosen, last, obs[rows])))
            elif chosen:
                shown.append((rows, self._view.begin(chosen, obs[rows])))
        seen = np.empty((len(obs), shown[0][1].shape[1]), np.uint8)
        for rows, bits in shown:
            seen[rows] = bits
        return seen
