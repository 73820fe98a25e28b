"""A team of agents: PettingZoo's ParallelEnv interface, without PettingZoo.

python -m workflow_rl train-async --env examples.guards:Guards --total-episodes 600
"""

import numpy as np
from gymnasium.spaces import Box, Discrete


class Guards:
    """Each agent sees which of its doors is open, and gets 1 if it closes this door."""

    def __init__(self):
        self.doors = {"north": 3, "south": 3, "chief": 5}
        self.possible_agents = list(self.doors)

    def observation_space(self, agent):
        return Box(0, 1, (self.doors[agent],), np.float32)

    def action_space(self, agent):
        return Discrete(self.doors[agent])

    def reset(self, seed=None, options=None):
        self.random = np.random.default_rng(seed)
        self.agents, self.steps = list(self.possible_agents), 0
        return self.observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        rewards = {agent: float(actions[agent] == self.open[agent]) for agent in self.agents}
        self.steps += 1
        terminations = dict.fromkeys(self.agents, False)
        truncations = dict.fromkeys(self.agents, self.steps == 20)
        infos = {agent: {} for agent in self.agents}
        observations = self.observations()
        if self.steps == 20:
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def observations(self):
        self.open = {agent: int(self.random.integers(self.doors[agent])) for agent in self.agents}
        return {
            agent: np.eye(self.doors[agent], dtype=np.float32)[self.open[agent]]
            for agent in self.agents
        }
