"""A simulator of one's own that steps many teams in one call.

python -m workflow_rl train-async --env examples.own_teams:Signals --total-episodes 300 \
  --n-envs 20 --run-dir runs/signals
"""

from workflow_rl.environments import BatchedTeamEnv, TeamStep  # isort: skip (before NumPy)

import numpy as np
from gymnasium.spaces import Box, Discrete


class Signals(BatchedTeamEnv):
    """Each agent sees a bit of its own and repeats it."""

    shared_reward = True

    def __init__(self, n_envs):
        self.observation_spaces = {name: Box(0, 1, (1,), np.int8) for name in ("left", "right")}
        self.action_spaces = {name: Discrete(2) for name in ("left", "right")}
        self.random = [None] * n_envs
        self.steps = np.zeros(n_envs, np.int64)
        self.bits = np.zeros((n_envs, 2), np.int8)

    def reset(self, indices, seeds):
        for env, seed in zip(indices, seeds, strict=True):
            self.random[env] = np.random.default_rng(seed)
        self.steps[indices] = 0
        return self.shown(indices), np.full((len(indices), 2), self.ACTS)

    def step(self, indices, actions):
        reward = (actions == self.bits[indices]).sum(axis=1)
        self.steps[indices] += 1
        truncated = self.steps[indices] == 20
        status = np.where(truncated[:, None], self.CUT_OFF, np.full((len(indices), 2), self.ACTS))
        return TeamStep(self.shown(indices), status, reward, np.zeros_like(truncated), truncated)

    def shown(self, indices):
        for env in indices:
            self.bits[env] = self.random[env].integers(2, size=2)
        return self.bits[indices]
