"""A team of PettingZoo's ParallelEnv as one Gymnasium environment: see `agents.team`."""

from __future__ import annotations

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
        actions = [env.action_space(agent) for agent in self._agents]
        for agent, space in zip(self._agents, actions, strict=True):
            if not isinstance(space, spaces.Discrete):
                raise InvalidEnvironmentError(
                    ENV, f"the action space {space} of {agent} is not supported: Discrete is"
                )
        self._first = [int(space.start) for space in actions]
        self._n_actions = [int(space.n) for space in actions]
        self._shares_reward = bool(getattr(env, "shared_reward", False))
        shown = [without_mask(env.observation_space(agent)) for agent in self._agents]
        flat = [flat_space(space) for space in shown]
        self._flatten = [flattener(space) for space in shown]
        sizes = tuple(int(space.shape[0]) for space in flat)
        own = not self._shares_reward
        self.layout = TeamLayout(tuple(self._agents), sizes, tuple(self._n_actions), own)
        k = len(self._agents)
        is_small = self._shares_reward and all(space.dtype == np.uint8 for space in flat)
        dtype: Any = np.uint8 if is_small else np.float32
        # An absent agent shows zeros.
        low = [np.minimum(space.low, 0) for space in flat] + [np.zeros(k)]
        high = [np.maximum(space.high, 0) for space in flat] + [np.full(k, CUT_OFF)]
        if own:
            low, high = [*low, np.full(k, -np.inf)], [*high, np.full(k, np.inf)]
        bounds = np.concatenate(low).astype(dtype), np.concatenate(high).astype(dtype)
        self.observation_space = spaces.Box(*bounds, dtype=dtype)
        self.action_space = spaces.MultiDiscrete(self._n_actions)

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
        parts, masks, offered = [], [], False
        self._status = []
        present = set(self.env.agents)
        for k, agent in enumerate(self._agents):
            is_seen = agent in obs and not terminations.get(agent, False)
            info = infos.get(agent, {})
            acts = is_seen and agent in present and not info.get("busy_steps", 0)
            is_cut_off = is_seen and truncations.get(agent, False)
            there = CUT_OFF if is_cut_off else ACTS if acts else BUSY
            self._status.append(there if is_seen else ABSENT)
            seen = obs[agent] if is_seen else None
            parts.append(
                np.zeros(self.layout.obs_sizes[k])
                if seen is None
                else self._flatten[k](self._without_mask(seen))
            )
            mask = mask_in(obs.get(agent), info)
            offered |= mask is not None
            masks.append(np.ones(self._n_actions[k]) if mask is None or not acts else mask)
        parts.append(np.array(self._status))
        if self.layout.own_rewards:
            parts.append(np.array([rewards.get(agent, 0.0) for agent in self._agents]))
        row = np.concatenate(parts).astype(self.observation_space.dtype)
        return row, {MASK: np.concatenate(masks)} if offered else {}

    @staticmethod
    def _without_mask(obs: Any) -> Any:
        if not isinstance(obs, dict) or MASK not in obs:
            return obs
        return {name: one for name, one in obs.items() if name != MASK}

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
