"""Observations that show an order, and an actor that keeps to an order.

An ordered observation begins with the environment's own D numbers and the order's P bits of
precedence, see `order.precedence`. With obedience "mask", the mask of the A actions follows:
[D + P + A]. With obedience "penalty", a bit for each of the G groups follows: [D + P + G]. Only the
bit of the group that is due, which has to be fixed next, is 1. Submissions contain a copy of this
module, so it needs only NumPy and `agents`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions, Choice
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.workflows.order import (
    NOBODY,
    Bools,
    Numbers,
    Order,
    Workflow,
    allowed,
    due,
    precedence,
    ranks_of,
)

MASK = "mask"
PENALTY = "penalty"
OBEDIENCE = (MASK, PENALTY)
"""MASK: fixes that break the order are impossible. PENALTY: fixes that break the order cost reward.
"""
ORDER_STREAM = 2
"""A key that separates the draws of orders from all other draws with an episode's seed."""


class WorkflowRules(Protocol):
    """The meaning of observations and actions for the groups of a workflow. n_own: D, the size of
    the environment's own observations."""

    workflow: Workflow
    n_own: int

    def needs(self, obs: NDArray[Any]) -> Bools:
        """Return whether each group needs fixing, bool [M, G], for observations [M, D]."""

    def fixes(self, obs: NDArray[Any]) -> Numbers:
        """Return the group that each action would fix now, or NOBODY, int64 [M, A]."""


class Fixes(NamedTuple):
    """What M actions mean for an order, bool [M].

    broken: whether the action fixed a group that was not due. decided: whether the action fixed a
    group while several groups needed fixing. Then the order decides which group is due."""

    broken: Bools
    decided: Bools


def fixes_made(
    rules: WorkflowRules, obs: NDArray[Any], ranks: Numbers, actions: Actions | Numbers
) -> Fixes:
    """Return what actions [M] after observations [M, D] mean for the orders. ranks: the orders'
    ranks [M, G], or [1, G] for a single order."""
    fixed = rules.fixes(obs)[np.arange(len(obs)), actions]
    needs = rules.needs(obs)
    due_groups = due(needs, ranks)
    is_fix = fixed != NOBODY
    return Fixes(
        broken=is_fix & (due_groups != NOBODY) & (fixed != due_groups),
        decided=is_fix & (needs.sum(axis=1) > 1),
    )


def ordered_obs(
    rules: WorkflowRules, obs: NDArray[Any], ranks: Numbers, obedience: str
) -> NDArray[Any]:
    """Return ordered observations for observations [M, D] and the orders' ranks [M, G]."""
    parts = [obs, order_bits(rules, obs, ranks, obedience)]
    if obedience == MASK:
        parts.append(allowed(rules.fixes(obs), due(rules.needs(obs), ranks)))
    return np.concatenate([part.astype(obs.dtype) for part in parts], axis=1)


def order_bits(rules: WorkflowRules, obs: NDArray[Any], ranks: Numbers, obedience: str) -> Bools:
    """Return the order's bits in ordered observations, bool [M, B]. The mask is left out."""
    bits = precedence(ranks) > 0
    if obedience == MASK:
        return bits
    groups = np.arange(len(rules.workflow.groups))
    return np.concatenate([bits, due(rules.needs(obs), ranks)[:, None] == groups], axis=1)


def n_order_bits(workflow: Workflow, obedience: str) -> int:
    """Return the number of bits B of `order_bits`."""
    n_groups = len(workflow.groups)
    n_precedence_bits = n_groups * (n_groups - 1) // 2
    return n_precedence_bits if obedience == MASK else n_precedence_bits + n_groups


def order_of_episode(workflow: Workflow, order: Order | None, seed: int) -> Order:
    """Return `order`. If `order` is None, the episode's seed draws an order."""
    if order is not None:
        return order
    sequence = np.random.SeedSequence(seed, spawn_key=(ORDER_STREAM,))
    return workflow.drawn(np.random.default_rng(sequence))


class OrderedActor:
    """Wraps an actor of ordered observations, so that it takes the environment's observations.

    order: the order of all episodes. If this is None, each episode's seed draws an order."""

    def __init__(
        self, actor: Actor, rules: WorkflowRules, order: Order | None, obedience: str
    ) -> None:
        self.policy_version = actor.policy_version
        self.actor = actor
        self._rules = rules
        self._order = order
        self._obedience = obedience
        self._ranks: dict[int, Numbers] = {}

    def ask(self, order: str) -> None:
        """Keep to an order from now on, in all envs. order: a text such as "servers,users". Raises
        ValueError."""
        self._order = self._rules.workflow.order_named(order)
        self._ranks.clear()

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        self.actor.reset(seed, env, n_acted)
        self._ranks[env] = self._drawn(seed)

    def _drawn(self, seed: int) -> Numbers:
        order = order_of_episode(self._rules.workflow, self._order, seed)
        ranks: Numbers = ranks_of([order])[0]
        return ranks

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions for observations [M, D], and log-probabilities: see Actor."""
        ranks = np.stack([self._ranks.setdefault(env, self._drawn(0)) for env in envs])
        return self.actor.act(ordered_obs(self._rules, obs, ranks, self._obedience), envs)


def check_obedience(obedience: str, penalty: float) -> None:
    """Raise ValueError for an unknown obedience, or a penalty without obedience "penalty"."""
    if obedience not in OBEDIENCE:
        raise ValueError(f"obedience={obedience!r}: choose {' or '.join(OBEDIENCE)}")
    if penalty and obedience != PENALTY:
        raise ValueError(f"penalty={penalty:g} needs obedience {PENALTY}, not {obedience}")
