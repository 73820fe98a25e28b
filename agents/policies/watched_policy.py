"""A policy that remembers how it decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy


class WatchedPolicy:
    """An Actor that remembers the policy's last observation, [1, D], and its outputs for it."""

    def __init__(self, policy: NumpyPolicy) -> None:
        self.policy = policy
        self.policy_version = policy.policy_version
        self.reset = policy.reset
        self.obs: NDArray[Any] | None = None
        self.outputs: NDArray[Any] | None = None

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        self.obs = np.atleast_2d(obs)
        self.outputs = self.policy.outputs(self.obs, envs)
        return self.policy.act(obs, envs)


def watch_policy(actor: Any) -> tuple[Actor, WatchedPolicy]:
    """Return an actor whose policy is watched, and this policy.

    actor: a NumpyPolicy, or what acts with the actor that it holds as `actor`.
    """
    if isinstance(actor, NumpyPolicy):
        policy = WatchedPolicy(actor)
        return policy, policy
    actor.actor, policy = watch_policy(actor.actor)
    return actor, policy


def probabilities(outputs: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probabilities of the choices, given a policy's outputs `[1, n]` for them."""
    logits = outputs[0].astype(np.float64)
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
