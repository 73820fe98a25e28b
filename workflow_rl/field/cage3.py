"""CAGE Challenge 3: eighteen drones, as PettingZoo's ParallelEnv is today.

CybORG's own wrapper has neither seeds nor truncations, shows 100 positions as 100 choices, and
loses a drone that Red takes. Here such a drone is busy: its team's rewards count, and it acts again
once it is back. The reward is that of the evaluation, the mean over the drones.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

import gym
import numpy as np
from gymnasium import spaces

np.int = int  # type: ignore[attr-defined]  # CybORG's name of it, which NumPy 1.24 took away.
gym.logger.set_level(gym.logger.ERROR)

from CybORG import CybORG  # noqa: E402
from CybORG.Agents.Wrappers.PettingZooParallelWrapper import (  # noqa: E402
    PettingZooParallelWrapper,
)
from CybORG.Simulator.Scenarios import DroneSwarmScenarioGenerator  # noqa: E402


class Drones:
    """The swarm, in episodes of `max_steps`."""

    shared_reward, wrapper = True, PettingZooParallelWrapper

    def __init__(self, max_steps: int = 500) -> None:
        self._max_steps = max_steps
        self._cyborg = CybORG(DroneSwarmScenarioGenerator(), "sim", seed=0)
        self._drones = self.wrapper(self._cyborg)
        self.possible_agents = [str(agent) for agent in self._drones.possible_agents]
        self._n = {a: int(self._drones.action_space(a).n) for a in self.possible_agents}
        size = len(self._drones.observation_space(self.possible_agents[0]).nvec)
        self._observed, self.agents = spaces.Box(0, 101, (size,), np.int16), list[str]()

    def observation_space(self, agent: str) -> spaces.Box:
        return self._observed

    def action_space(self, agent: str) -> spaces.Discrete:
        return spaces.Discrete(self._n[agent])

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self._cyborg.set_seed(seed)
        self.agents, self._steps = list(self.possible_agents), 0
        self._seen = {agent: np.zeros(self._observed.shape, np.int16) for agent in self.agents}
        return self._shown(self._drones.reset())

    def step(self, actions: Mapping[str, int]) -> Any:
        obs, rewards, *_ = self._drones.step(dict(actions))
        self._steps += 1
        agents, lost = self.agents, not self._cyborg.active_agents
        ended = not lost and self._steps == self._max_steps
        shown, infos = self._shown(obs)
        if lost or ended:
            self.agents = []
        paid = dict.fromkeys(agents, mean(rewards.values()))
        ends = [dict.fromkeys(agents, flag) for flag in (lost, ended)]
        return shown, paid, *ends, infos

    def _shown(self, obs: Mapping[str, Any]) -> Any:
        here = self._cyborg.active_agents
        self._seen |= {agent: obs[agent].astype(np.int16) for agent in here if agent in obs}
        infos = {agent: {"busy_steps": int(agent not in here)} for agent in self.possible_agents}
        return dict(self._seen), infos
