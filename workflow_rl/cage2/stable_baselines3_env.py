"""The compiled simulator's envs, all in one process, as a `VecEnv` of Stable-Baselines3.

A single env needs nothing of this: `make_vec_env("workflow_rl:workflow_rl/CAGE2-v0")` is enough.
Needs stable-baselines3, which the package itself does not, and so imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from workflow_rl.cage2.compiled.vector_env import CompiledVectorEnv


class CompiledVecEnv(VecEnv):
    """N compiled envs that step in one call, each with the episodes `DummyVecEnv`'s would play.

    An info is empty, but at the end of an episode, which is always a truncation, it holds
    `terminal_observation` and `TimeLimit.truncated`. `VecMonitor` adds the episode's return.

    Args:
        num_envs, red_agent, max_steps: those of `CompiledVectorEnv`.
    """

    def __init__(
        self, num_envs: int, red_agent: str | Sequence[str] = "B_lineAgent", max_steps: int = 100
    ) -> None:
        self.envs = CompiledVectorEnv(
            num_envs, red_agent, max_steps, AutoresetMode.SAME_STEP, describe_steps=False
        )
        self._actions: NDArray[np.int64] = np.zeros(num_envs, np.int64)
        super().__init__(
            num_envs, self.envs.single_observation_space, self.envs.single_action_space
        )

    def reset(self) -> NDArray[np.uint8]:
        """Start episodes, with the seeds of `seed(number)` if it was called since the last time.

        Raises:
            ValueError: options have been set: there are none.
        """
        if any(self._options):
            raise ValueError(f"options={self._options[0]}: CompiledVecEnv takes none")
        obs, _ = self.envs.reset(seed=self._seeds)
        self._reset_seeds()
        return obs

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        obs, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        described: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(truncated).tolist():
            described[i] = {
                "terminal_observation": infos["final_obs"][i],
                "TimeLimit.truncated": True,
            }
        return obs, rewards.astype(np.float32), terminated | truncated, described

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The attribute of the batch, once for each env."""
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise NotImplementedError(f"{attr_name}: the envs are one batch, without attributes each")

    def env_method(
        self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any
    ) -> list[Any]:
        raise NotImplementedError(f"{method_name}: the envs are one batch, without methods each")

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]
