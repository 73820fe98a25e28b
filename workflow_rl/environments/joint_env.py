"""A team of PettingZoo's ParallelEnv as one Gymnasium environment: see `agents.team`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from agents.team import ABSENT, ACTS, BUSY, CUT_OFF, TeamLayout
from workflow_rl.environments.action_mask import MASK, mask_in, without_mask
from workflow_rl.environments.environment import ENV, InvalidEnvironmentError
from workflow_rl.environments.flat_env import flat_space, flattener


def is_parallel(env: object) -> bool:
    """Return whether an environment has the interface of PettingZoo's ParallelEnv."""
    return hasattr(env, "possible_agents")


def joint_spaces(
    observed: Mapping[str, spaces.Box],
    actions: Mapping[str, spaces.Space[Any]],
    shared_reward: bool,
) -> tuple[TeamLayout, spaces.Box, spaces.MultiDiscrete]:
    """Return where the parts of a row stand, the space of rows, and that of joint actions.

    observed: the spaces of flat observations, by agent. actions: by agent. Raise
    InvalidEnvironmentError for actions that are not Discrete.
    """
    for agent, space in actions.items():
        if not isinstance(space, spaces.Discrete):
            raise InvalidEnvironmentError(
                ENV, f"the action space {space} of {agent} is not supported: Discrete is"
            )
    flat = list(observed.values())
    n_actions = tuple(int(space.n) for space in actions.values())  # type: ignore[attr-defined]
    sizes = tuple(int(space.shape[0]) for space in flat)
    layout = TeamLayout(tuple(observed), sizes, n_actions, own_rewards=not shared_reward)
    is_small = shared_reward and all(space.dtype == np.uint8 for space in flat)
    dtype: Any = np.uint8 if is_small else np.float32
    # An absent agent shows zeros.
    k = len(flat)
    low = [np.minimum(space.low, 0) for space in flat] + [np.zeros(k)]
    high = [np.maximum(space.high, 0) for space in flat] + [np.full(k, CUT_OFF)]
    if layout.own_rewards:
        low, high = [*low, np.full(k, -np.inf)], [*high, np.full(k, np.inf)]
    bounds = np.concatenate(low).astype(dtype), np.concatenate(high).astype(dtype)
    return layout, spaces.Box(*bounds, dtype=dtype), spaces.MultiDiscrete(list(n_actions))


class JointEnv(gymnasium.Env[NDArray[Any], NDArray[np.int64]]):
    """Several agents as one: a row of observations, and an action [K].

    An agent decides if it is in `agents`, and `infos[agent]["busy_steps"]`, if that is there, is 0.
    The actions of other agents are not handed to the environment. The reward is the sum of the
    agents' rewards, or their common reward if the environment has `shared_reward`. The episode ends
    when no agent is left.

    Raises InvalidEnvironmentError for actions that are not Discrete.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self._agents: list[str] = list(env.possible_agents)
        actions = {agent: env.action_space(agent) for agent in self._agents}
        shown = {agent: without_mask(env.observation_space(agent)) for agent in self._agents}
        flat = {agent: flat_space(space) for agent, space in shown.items()}
        self._flatten = {agent: flattener(space) for agent, space in shown.items()}
        self._shares_reward = bool(getattr(env, "shared_reward", False))
        self.layout, self.observation_space, self.action_space = joint_spaces(
            flat, actions, self._shares_reward
        )
        self._first = [int(space.start) for space in actions.values()]
        self._ends = np.cumsum(self.layout.obs_sizes).tolist()
        self._status = np.zeros(len(self._agents), np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode."""
        obs, infos = self.env.reset(seed=seed, options=options)
        return self._shown(obs, {}, {}, {}, infos)

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Step once. The episode is truncated if any agent was when the last agents left."""
        decided = zip(self._agents, action, self._first, self._status, strict=True)
        actions = {agent: int(a) + first for agent, a, first, status in decided if status == ACTS}
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        given = list(rewards.values())
        reward = float(given[0] if self._shares_reward and given else sum(given))
        row, info = self._shown(obs, rewards, terminations, truncations, infos)
        ended = not self.env.agents
        truncated = ended and any(truncations.values())
        return row, reward, ended and not truncated, truncated, info

    def _shown(
        self, obs: Any, rewards: Any, terminations: Any, truncations: Any, infos: Any
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Return the row, and the masks if an agent has one."""
        shown = {one: obs[one] for one in obs if not terminations.get(one, False)}
        self._status = np.array(
            [self._status_of(one, one in shown, truncations, infos) for one in self._agents]
        )
        row = np.zeros(self.layout.obs_dim, self.observation_space.dtype)
        for agent, size, end in zip(self._agents, self.layout.obs_sizes, self._ends, strict=True):
            if agent in shown:
                row[end - size : end] = self._flatten[agent](self._without_mask(shown[agent]))
        self.layout.status(row[None])[:] = self._status
        if self.layout.own_rewards:
            own = self.layout.rewards(row[None])
            own[:] = [rewards.get(agent, 0.0) for agent in self._agents]
        masks = [mask_in(obs.get(agent), infos.get(agent, {})) for agent in self._agents]
        return row, self._joined(masks)

    def _status_of(self, agent: str, is_seen: bool, truncations: Any, infos: Any) -> int:
        if not is_seen:
            return ABSENT
        if truncations.get(agent, False):
            return CUT_OFF
        is_busy = agent not in self.env.agents or infos.get(agent, {}).get("busy_steps", 0)
        return BUSY if is_busy else ACTS

    def _joined(self, masks: list[Any]) -> dict[str, Any]:
        """Return the info with the masks of the agents that decide, if any agent has a mask."""
        if all(mask is None for mask in masks):
            return {}
        parts = zip(masks, self._status, self.layout.n_actions, strict=True)
        return {
            MASK: np.concatenate(
                [
                    np.ones(n) if mask is None or status != ACTS else mask
                    for mask, status, n in parts
                ]
            )
        }

    @staticmethod
    def _without_mask(obs: Any) -> Any:
        if not isinstance(obs, dict) or MASK not in obs:
            return obs
        return {name: one for name, one in obs.items() if name != MASK}

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
