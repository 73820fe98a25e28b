"""An environment of one's own.

python -m workflow_rl train-async --env examples.corridor:Corridor --total-steps 40000
"""

import gymnasium
import numpy as np


class Corridor(gymnasium.Env):
    """Walk to the right end. Every step costs 0.1, arriving pays 1."""

    def __init__(self, length=10):
        self.length = length
        self.observation_space = gymnasium.spaces.Box(0, length, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # All randomness from self.np_random: then the seed decides.
        self.place, self.steps = int(self.np_random.integers(self.length)), 0
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place = min(self.length, max(0, self.place + (1 if action == 1 else -1)))
        self.steps += 1
        arrived = self.place == self.length
        reward = 1.0 if arrived else -0.1
        return np.array([self.place], np.float32), reward, arrived, self.steps == 100, {}
