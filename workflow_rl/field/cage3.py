"""CAGE Challenge 3: eighteen drones, as PettingZoo's ParallelEnv is today.

CybORG's own wrapper has neither seeds nor truncations, shows 100 positions as 100 choices, and
loses a drone that Red takes. Here such a drone is busy: its team's rewards count, and it acts again
once it is back. The reward is that of the evaluation, the mean over the drones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import mean
from typing import Any

import gym
import numpy as np
from gymnasium import spaces

np.int = int  # type: ignore[attr-defined]  # CybORG uses this name, which NumPy 1.24 removed.
gym.logger.set_level(gym.logger.ERROR)

from CybORG import CybORG  # noqa: E402
from CybORG.Agents.Wrappers.PettingZooParallelWrapper import PettingZooParallelWrapper  # noqa: E402
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


class _Numbered(PettingZooParallelWrapper):
    def __init__(self, cyborg: Any) -> None:
        super().__init__(cyborg)
        self.msg_len = len(self.possible_agents)
        for agent, seen in self._observation_spaces.items():
            n_values = [*seen.nvec, *[2] * self.msg_len]
            self._observation_spaces[agent] = gym.spaces.MultiDiscrete(n_values)

    def select_messages(self, actions: Mapping[str, int]) -> Any:
        for agent, number in actions.items():
            vars(self.agent_actions[agent][number]).update(dropped=False, blocked=False)
        numbers = {agent: self.possible_agents.index(agent) for agent in actions}
        return actions, {agent: [n >> bit & 1 for bit in range(16)] for agent, n in numbers.items()}

    def parse_message(self, messages: Iterable[Any], agent: str) -> list[int]:
        heard = {sum(int(on) << bit for bit, on in enumerate(bits)) for bits in messages}
        return [int(number in heard) for number in range(self.msg_len)]

    def observation_change(self, agent: str, obs: Any) -> Any:
        seen = super().observation_change(agent, obs)
        n = self.msg_len
        others, heard = seen[2 * n + 4 : 6 * n].reshape(n - 1, 4), seen[-n:].copy()
        reached = others[others[:, 1:3].any(axis=1), 0]
        seen[-n:] = 0
        if heard.any():  # Nobody is heard at the start.
            seen[6 * n + reached] = 1 - heard[reached]
        return seen


class Listening(Drones):
    """The swarm, whose observations end with a number for each drone: 1 if it is missed.

    Each drone sends its number, and misses each connected drone that it does not hear. Such a drone
    is Red's, or was retaken in the last step. Messages are those of the challenge: 16 bits, from
    each drone that acts to all drones that it is connected to. CybORG's wrapper takes the same
    action objects in all steps, and an action that was dropped or blocked once fails for the rest
    of the episode. Here each step resets them, because the challenge's agents make new objects.
    """

    wrapper = _Numbered
