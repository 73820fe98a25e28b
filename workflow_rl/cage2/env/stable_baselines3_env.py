"""The compiled simulator's envs, all in one process, as a `VecEnv` of Stable-Baselines3.

For a single env, `make_vec_env("workflow_rl:workflow_rl/CAGE2-v0")` is enough. This module needs
stable-baselines3, which imports torch. The rest of the package does not need it.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from workflow_rl.cage2.env.checks import check_options
from workflow_rl.cage2.env.vector_env import CompiledVectorEnv
from workflow_rl.environments.gymnasium_versions import AutoresetMode

METHODS = ("action_masks", "describe")
"""The methods of each env that `env_method` calls."""


class CompiledVecEnv(VecEnv):
    """N compiled envs that step in one call, and play the episodes that a `DummyVecEnv` plays.

    An info is empty until the end of an episode, which is always a truncation. It then holds
    `terminal_observation` and `TimeLimit.truncated`. `VecMonitor` adds the episode's return.
    sb3-contrib's MaskablePPO finds `action_masks`. The arguments are those of `CompiledVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int,
        red_agent: Any = "B_lineAgent",
        max_steps: int | None = None,
        obs_dtype: str = "float32",
    ) -> None:
        self.envs = CompiledVectorEnv(
            num_envs,
            red_agent,
            max_steps,
            AutoresetMode.SAME_STEP,
            describe_steps=False,
            obs_dtype=obs_dtype,
        )
        self._actions: NDArray[np.int64] = np.zeros(num_envs, np.int64)
        super().__init__(
            num_envs, self.envs.single_observation_space, self.envs.single_action_space
        )

    __copy__ = copy.deepcopy

    def reset(self) -> NDArray[Any]:
        """Start episodes, with the seeds of `seed(number)` and the options of `set_options`, if
        they were called since the last time.

        Raises:
            ValueError: an option is not `red_agent`, or its value is wrong.
        """
        for options in self._options:
            check_options(options, ("red_agent",))
        chosen = [
            options.get("red_agent", red_agent)
            for options, red_agent in zip(self._options, self.envs.red_agents, strict=True)
        ]
        obs, _ = self.envs.reset(seed=self._seeds, options={"red_agent": chosen})
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
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
        """Return the attribute of each env. All but its red agent and methods are the batch's."""
        chosen = list(self._get_indices(indices))
        if attr_name == "red_agent":
            return [self.envs.red_agents[i] for i in chosen]
        if attr_name in ("observation_space", "action_space"):
            attr_name = f"single_{attr_name}"
        if attr_name in METHODS:
            return [functools.partial(self._method_of, attr_name, i) for i in chosen]
        return [getattr(self.envs, attr_name) for _ in chosen]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set the red agent, from the next episode on.

        Raises:
            NotImplementedError: the attribute is not `red_agent`.
        """
        if attr_name != "red_agent":
            raise NotImplementedError(f"{attr_name}: of an env of the batch, red_agent can be set")
        self.envs.check_red_agent(value)
        for i in self._get_indices(indices):
            self.envs.red_agents[i] = value

    def env_method(
        self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any
    ) -> list[Any]:
        """Return what `action_masks` or `describe` returns for each env.

        Raises:
            NotImplementedError: the method is another one.
        """
        if method_name not in METHODS:
            known = " and ".join(METHODS)
            raise NotImplementedError(f"{method_name}: an env of the batch has {known}")
        chosen = list(self._get_indices(indices))
        if method_name == "describe":
            return [self.envs.describe(i, *args, **kwargs) for i in chosen]
        return list(self.envs.action_masks(*args, **kwargs)[chosen])

    def _method_of(self, name: str, env: int) -> Any:
        return self.env_method(name, indices=[env])[0]

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]
