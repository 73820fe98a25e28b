"""An environment whose steps have a cost beside their reward.

python -m workflow_rl train-async --env examples.deliveries:Deliveries --budget fuel=5 \
  --total-steps 60000
"""

import gymnasium
import numpy as np


class Deliveries(gymnasium.Env):
    """Twenty parcels, each more or less urgent. Driving pays the urgency, and costs fuel."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.urgency, self.steps = self.np_random.random(), 0
        return np.array([self.urgency], np.float32), {}

    def step(self, action):
        drives = int(action)
        reward, info = drives * self.urgency, {"costs": {"fuel": drives}}
        self.urgency, self.steps = self.np_random.random(), self.steps + 1
        return np.array([self.urgency], np.float32), reward, False, self.steps == 20, info
