"""All envs of CAGE-2 in one call, as a VecEnv of Stable-Baselines3. Prints its steps per second.

Usage: python examples/sb3_vec_env.py
"""

import time

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv

ID = "workflow_rl:workflow_rl/CAGE2-v0"


class BatchedVecEnv(VecEnv):
    """N envs, which play the episodes that N single envs in a DummyVecEnv play."""

    def __init__(self, num_envs, **arguments):
        same_step = {"autoreset_mode": AutoresetMode.SAME_STEP, "describe_steps": False}
        envs = self.envs = gymnasium.make_vec(ID, num_envs, **same_step, **arguments).unwrapped
        super().__init__(num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self):
        obs, _ = self.envs.reset(seed=self._seeds)
        self._reset_seeds()
        return obs

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        obs, rewards, _, truncated, infos = self.envs.step(self.actions)
        described = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(truncated):  # Episodes of CAGE-2 never terminate.
            last = infos["final_obs"][i]
            described[i] = {"terminal_observation": last, "TimeLimit.truncated": True}
        return obs, rewards.astype(np.float32), truncated, described

    def close(self):
        self.envs.close()

    def get_attr(self, attr_name, indices=None):
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name, value, indices=None):
        raise NotImplementedError(f"the envs share {attr_name}: it cannot be set")

    def env_method(self, method_name, *args, indices=None, **kwargs):  # Such as action_masks.
        rows = getattr(self.envs, method_name)(*args, **kwargs)
        return [rows[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class, indices=None):
        return [False for _ in self._get_indices(indices)]


if __name__ == "__main__":
    envs, start = BatchedVecEnv(1000), time.perf_counter()
    envs.reset()
    for _ in range(300):
        envs.step(np.zeros(1000, np.int64))
    print(f"{300_000 / (time.perf_counter() - start):,.0f} steps per second")
