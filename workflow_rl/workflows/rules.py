"""What an agent sees of its order, and an actor that keeps to an order.

An ordered observation begins with the environment's own D numbers and the order's P bits of
precedence. Where a mask keeps the order, the mask of the A actions follows, and otherwise a bit for
each of the G groups, which is set for the group that is due: [D + P + A] or [D + P + G]. This
module needs NumPy and `agents` alone, because submissions contain a copy.
"""

from __future__ import annotations

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
"""How an order is kept: fixes that break it are impossible, or cost something."""
ORDER_STREAM = 2
"""Keeps the draws of orders apart from other uses of an episode's seed."""


class WorkflowRules(Protocol):
    """How an environment's observations and actions concern the groups of a workflow.

    n_own: the size of the environment's own observations, D.
    """

    workflow: Workflow
    n_own: int

    def needs(self, obs: NDArray[Any]) -> Bools:
        """Return which groups need fixing, bool [M, G], as observations [M, D] tell."""

    def fixes(self, obs: NDArray[Any]) -> Numbers:
        """Return which group each action would fix now, int64 [M, A], or NOBODY."""


class Fixes(NamedTuple):
    """What M actions fixed, bool [M].

    broken: whether the action fixed another group than the one that was due. decided: whether it
    fixed a group while several groups needed fixing, so that the order decided which.
    """

    broken: Bools
    decided: Bools


def fixes_made(
    rules: WorkflowRules, obs: NDArray[Any], ranks: Numbers, actions: Actions | Numbers
) -> Fixes:
    """Return what actions [M] after observations [M, D] fixed. ranks: of the orders, [M, G]; [1, G]
    if all have the same order."""
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
    """Return ordered observations for observations [M, D] and orders, as ranks [M, G]."""
    parts = [obs, order_bits(rules, obs, ranks, obedience)]
    if obedience == MASK:
        parts.append(allowed(rules.fixes(obs), due(rules.needs(obs), ranks)))
    return np.concatenate([part.astype(obs.dtype) for part in parts], axis=1)


def order_bits(rules: WorkflowRules, obs: NDArray[Any], ranks: Numbers, obedience: str) -> Bools:
    """Return what the policy sees of orders, bool [M, B].

    These are the bits of precedence, and, where no mask keeps the order, which group is due.
    """
    bits = precedence(ranks) > 0
    if obedience == MASK:
        return bits
    groups = np.arange(len(rules.workflow.groups))
    return np.concatenate([bits, due(rules.needs(obs), ranks)[:, None] == groups], axis=1)


def n_order_bits(workflow: Workflow, obedience: str) -> int:
    """Return the number of bits B of `order_bits`."""
    n_groups = len(workflow.groups)
    return n_groups * (n_groups - 1) // 2 + (0 if obedience == MASK else n_groups)


def order_of_episode(workflow: Workflow, order: Order | None, seed: int) -> Order:
    """Return the order, or, for None, the one that an episode's seed draws."""
    if order is not None:
        return order
    sequence = np.random.SeedSequence(seed, spawn_key=(ORDER_STREAM,))
    return workflow.drawn(np.random.default_rng(sequence))


class OrderedActor:
    """An actor of ordered observations that plays on the environment's own.

    order: the order of all episodes. None: each episode's seed draws one. `ask` changes it.
    """

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
        """Keep to another order from now on, such as "servers,users", in all envs. Raises
        ValueError."""
        self._order = self._rules.workflow.order_named(order)
        self._ranks.clear()

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode: see Actor."""
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
    """Raise ValueError for what is no way of keeping an order."""
    if obedience not in OBEDIENCE:
        raise ValueError(f"obedience={obedience!r}: choose {' or '.join(OBEDIENCE)}")
    if penalty and obedience != PENALTY:
        raise ValueError(f"penalty={penalty:g} needs obedience {PENALTY}: a mask lets no fix pass")
