"""Inputs that several tests of this folder share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.trajectory import Trajectory


def example_trajectory(
    reward: Sequence[float],
    *,
    terminated: bool = False,
    obs_dim: int = 6,
    n_actions: int = 4,
    seed: int = 0,
) -> Trajectory:
    """A trajectory with these rewards, random observations and actions, and uniform log-probs."""
    random = np.random.default_rng(seed)
    length = len(reward)
    return Trajectory(
        episode=0,
        variant="SleepAgent",
        policy_version=0,
        obs=random.integers(0, 2, (length, obs_dim), np.uint8),
        action=random.integers(0, n_actions, length),
        log_prob=np.full(length, -np.log(n_actions), np.float32),
        reward=np.array(reward, np.float64),
        last_obs=random.integers(0, 2, obs_dim, np.uint8),
        terminated=terminated,
        truncated=not terminated,
    )
