"""What Blue's policy sees of CAGE-2, and such a policy where the 52 bits and 145 actions are.

`viewed_envs` has the envs that it learns with. Needs nothing but NumPy and `agents`: submissions
take this module along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agents.policies.distributions import Choice
from agents.policies.numpy_policy import Actor
from workflow_rl.cage2.agent.action_sets import Indices, make_action_set
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS

OBSERVATIONS = ("table", "belief", "true-state")

TABLE_SIZE = 4 * len(HOSTS)

Bits = NDArray[np.uint8]


class View(Protocol):
    """What Blue sees in each of several envs, numbered from 0. It is told of every step there."""

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """Episodes begin in M envs: what Blue sees, uint8 [M, D], of obs [M, 52]."""

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """What Blue sees, uint8 [M, D], of the obs [M, 52] that its actions [M] have led to, which
        are indices into ACTION_NAMES."""


class TableView:
    """The 52 bits as they are."""

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """See View."""
        return obs

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """See View."""
        return obs


class BeliefView:
    """The 52 bits, and what Blue concludes from all that it saw: see `compiled.blue_belief`.

    beliefs: by env. hypotheses: by env, `[N, N_HYPOTHESES]`.
    """

    def __init__(self) -> None:
        belief = _blue_belief()
        self.beliefs = np.zeros(0, belief.BELIEF)
        self.hypotheses = np.zeros((0, belief.N_HYPOTHESES), _hypothesis())
        # Room to work in.
        self._candidates = np.zeros(belief.N_CANDIDATES, _hypothesis())

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """See View."""
        self.beliefs = _of_length(max(envs) + 1, self.beliefs)
        self.hypotheses = _of_length(max(envs) + 1, self.hypotheses)
        shown = self._empty(obs)
        _blue_belief().begin_beliefs(
            self.beliefs, np.array(envs), self.hypotheses, plain(obs), shown
        )
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """See View."""
        shown = self._empty(obs)
        _blue_belief().conclude_steps(
            self.beliefs,
            np.array(envs),
            self.hypotheses,
            self._candidates,
            actions,
            plain(obs),
            shown,
        )
        return shown

    def _empty(self, obs: Bits) -> Bits:
        return np.empty((len(obs), _blue_belief().N_SHOWN), np.uint8)


def _of_length(length: int, rows: NDArray[Any]) -> NDArray[Any]:
    """The rows, with empty ones added if they are fewer."""
    missing = max(length - len(rows), 0)
    return np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)])


def _blue_belief() -> Any:
    # Not before it is needed: numba takes half a second to import.
    from workflow_rl.cage2.compiled import blue_belief

    return blue_belief


def _hypothesis() -> Any:
    from workflow_rl.cage2.compiled.red_hypothesis import HYPOTHESIS

    return HYPOTHESIS


def plain(obs: Bits) -> Bits:
    """In the one layout that compiled code is compiled for."""
    return np.array(obs, np.uint8, order="C")


def make_view(observation: str) -> View:
    """That of OBSERVATIONS, but for the true state, which Blue does not see."""
    assert observation != "true-state"
    return BeliefView() if observation == "belief" else TableView()


class ViewingActor:
    """An actor of `ViewedEnvs`, playing on the 52 bits with all 145 actions."""

    def __init__(
        self, actor: Actor, observation: str, actions: str, opening: Sequence[str] = ()
    ) -> None:
        self.actor = actor
        self.policy_version = actor.policy_version
        self._view = make_view(observation)
        self._actions = make_action_set(actions)
        self._opening = [ACTION_NAMES.index(name) for name in opening]
        # By env: how many actions have been made, and the last one.
        self._made: dict[int, tuple[int, int]] = {}

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode in env number `env`: see Actor."""
        assert n_acted == 0, "what the agent remembers of the steps before is not known"
        self.actor.reset(seed, env)
        self._actions.begin([env])
        self._made[env] = 0, 0

    def act(self, obs: NDArray[np.uint8], envs: Sequence[int] = (0,)) -> Choice:
        """Actions, indices into ACTION_NAMES, for obs [M, 52]: see Actor. What belongs to the
        opening has probability 1."""
        obs = np.atleast_2d(obs)
        # Compiled code would read whatever lies behind others.
        if obs.shape != (len(envs), TABLE_SIZE) or not ((obs == 0) | (obs == 1)).all():
            raise ValueError(f"observations are zeros and ones, ({len(envs)}, {TABLE_SIZE})")
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
            choices, log_probs[free] = self.actor.act(seen[free], playing)
            actions[free] = self._actions.chosen(playing, choices)
        self._actions.after(envs, actions)
        for env, n, action in zip(envs, made, actions.tolist(), strict=True):
            self._made[env] = n + 1, action
        return actions, log_probs

    def _seen(self, obs: Bits, envs: Sequence[int]) -> Bits:
        going_on = np.array([self._made[env][0] > 0 for env in envs])
        if not going_on.any():
            return self._view.begin(envs, obs)
        if going_on.all():
            return self._view.after(envs, self._last(envs), obs)
        first, later = np.flatnonzero(~going_on).tolist(), np.flatnonzero(going_on).tolist()
        firsts, laters = [envs[row] for row in first], [envs[row] for row in later]
        shown = self._view.begin(firsts, obs[first])
        seen = np.empty((len(obs), shown.shape[1]), np.uint8)
        seen[first] = shown
        seen[later] = self._view.after(laters, self._last(laters), obs[later])
        return seen

    def _last(self, envs: Sequence[int]) -> Indices:
        return np.array([self._made[env][1] for env in envs])
