"""CAGE-2 in which each Restore costs 2 instead of 1.

python -m workflow_rl train-async --env examples.dear_restore:make --total-steps 200000
"""

import gymnasium

from workflow_rl.cage2 import Cage2Env
from workflow_rl.cage2.scenario2 import ACTION_NAMES


class DearRestore(gymnasium.Wrapper):
    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        if ACTION_NAMES[info["blue_action"]].startswith("Restore"):
            reward -= 1.0
        return obs, reward, terminated, truncated, info


def make():
    return DearRestore(Cage2Env("RedMeanderAgent", simulator="compiled"))
