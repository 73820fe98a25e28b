"""SMAClite's battles, as a team of PettingZoo's ParallelEnv: with masks, and a limit of steps.

SMAClite's own environments take the actions of all units, give one reward, and never truncate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import smaclite  # noqa: F401 (registers its environments)
from gymnasium import spaces


class Battle:
    """The battle of this name, such as "2s3z", in episodes of at most `max_steps`."""

    shared_reward = True

    def __init__(self, battle: str = "2s3z", max_steps: int = 120) -> None:
        made: Any = gymnasium.make(f"smaclite/{battle}-v0", disable_env_checker=True)
        self._battle = made.unwrapped
        self._max_steps = max_steps
        self.possible_agents = [f"unit_{n}" for n in range(self._battle.n_agents)]
        self.agents = list[str]()
        self._battle.reset(seed=0)  # A battle has no state before.
        size = np.shape(self._battle.get_state())
        self.state_space = spaces.Box(-np.inf, np.inf, size, np.float32)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._battle.observation_space[self.possible_agents.index(agent)]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._battle.action_space[self.possible_agents.index(agent)]

    def state(self) -> Any:
        return np.asarray(self._battle.get_state(), np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self._steps = list(self.possible_agents), 0
        obs, _ = self._battle.reset(seed=seed)
        self._battle.last_actions[:] = 0  # They would still be in the state.
        return self._shown(obs)

    def step(self, actions: Mapping[str, int]) -> Any:
        self._steps += 1
        acts = [int(actions[agent]) for agent in self.possible_agents]
        obs, reward, ended, _, _ = self._battle.step(acts)
        cut_off = self._steps == self._max_steps and not ended
        shown, infos = self._shown(obs)
        self.agents = [] if ended or cut_off else self.agents
        told = (float(reward), bool(ended), cut_off)
        return shown, *(dict.fromkeys(self.possible_agents, value) for value in told), infos

    def _shown(self, obs: Any) -> Any:
        masks = map(np.array, self._battle.get_avail_actions())
        infos = [{"action_mask": mask.astype(bool)} for mask in masks]
        return tuple(dict(zip(self.possible_agents, part, strict=True)) for part in (obs, infos))
