"""One episode as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions

Float64Array = NDArray[np.float64]


class Trajectory(NamedTuple):
    """`T` steps of one episode: the complete episode, or the part in an unroll.

    The agent chose `action[t]` for the observation `obs[t]`.

    variant: the env's variant, such as its red agent, or "" without variants. obs: [T, D], the
    env's dtype. action: [T] or [T, K], as sampled. log_prob: float32 [T], of the action under the
    acting policy, or [T, K] for a team of K agents. reward: float64 [T]. last_obs: [D], the
    observation after the last action. If the episode `terminated` there, no rewards follow.
    Otherwise it was `truncated` or goes on in the next unroll, and the value of last_obs replaces
    the later rewards.
    steps_before, return_before: the number of the episode's earlier steps, and the sum of their
    rewards.
    seen_before: [B, D], the last B observations before obs[0], from which the actor recomputed its
    state, or None.
    durations: [T], how many env steps each decision lasts, or None if each lasts one step. Rewards
    are sums over a decision's steps: see `agents.team.split`.
    costs: float64 [T, C], the costs of each step in the order of `Spaces.costs`, or None.
    costs_before: [C], the sums of the earlier steps' costs.
    """

    episode: int
    variant: str
    policy_version: int
    obs: NDArray[np.generic]
    action: Actions
    log_prob: NDArray[np.float32]
    reward: Float64Array
    last_obs: NDArray[np.generic]
    terminated: bool
    truncated: bool
    steps_before: int = 0
    return_before: float = 0.0
    seen_before: NDArray[np.generic] | None = None
    durations: NDArray[np.int64] | None = None
    costs: Float64Array | None = None
    costs_before: Float64Array | None = None

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated

    @property
    def length(self) -> int:
        return len(self.reward)

    @property
    def episode_return(self) -> float:
        """The undiscounted sum of the episode's rewards so far."""
        return self.return_before + float(self.reward.sum())

    @property
    def episode_costs(self) -> Float64Array:
        """The sums of the episode's costs so far, [C], or [0] without costs."""
        if self.costs is None or self.costs_before is None:
            return np.zeros(0)
        # The costs are added step by step, so that the sum does not depend on unrolls.
        return np.cumsum(np.vstack([self.costs_before, self.costs]), axis=0)[-1]


def lags_of(trajectories: Sequence[Trajectory], policy_version: int) -> dict[str, Any]:
    """Return the metrics of a rollout's policy lag. The mean is over steps."""
    lags = [policy_version - trajectory.policy_version for trajectory in trajectories]
    n_steps = [trajectory.length for trajectory in trajectories]
    return {
        "policy_lag_min": min(lags),
        "policy_lag_mean": float(np.average(lags, weights=n_steps)),
        "policy_lag_max": max(lags),
    }
