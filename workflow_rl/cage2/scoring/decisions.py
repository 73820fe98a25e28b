"""How a policy decides, for recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy

MOST_PROBABILITIES = 5


@dataclass(frozen=True)
class Decision:
    """How a policy decided.

    probabilities: those of the likeliest actions, at most MOST_PROBABILITIES, and of the chosen
    one. value: the return that the critic expects, see `critic_of`; None if there is no critic.
    is_opening: the action belongs to a fixed opening.
    """

    probabilities: tuple[tuple[str, float], ...]
    value: float | None = None
    is_opening: bool = False


def likeliest(
    probability: NDArray[np.float64], chosen: int, names: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """Return the likeliest actions and the chosen one, with their probabilities: see `Decision`.

    probability: `[len(names)]`.
    """
    shown = np.argsort(-probability, kind="stable")[:MOST_PROBABILITIES].tolist()
    if chosen not in shown:
        shown.append(chosen)
    return tuple((names[i], float(probability[i])) for i in shown if probability[i] > 0)


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


def probabilities(outputs: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probabilities of the choices, given a policy's outputs `[1, n]` for them."""
    logits = outputs[0].astype(np.float64)
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
