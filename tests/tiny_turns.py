"""A tiny environment of PettingZoo's AECEnv: players act in turn, by a script."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import AECEnv


class Told(AECEnv):
    """Players act in turn. Each sees the number of the turn; all turns pay what the script says.

    rewards: by turn, what each player gets; the last turn cuts all off, or ends the game.
    dies: the players that end in a turn.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "told"}
    possible_agents = ("a", "b", "c")

    def __init__(
        self,
        rewards: Sequence[Mapping[str, float]] = ({"a": 1.0}, {"b": 2.0}, {"c": 3.0}) * 2,
        dies: Mapping[int, str] = {},
        is_cut_off: bool = True,
    ) -> None:
        self.script, self.dies, self.is_cut_off = rewards, dies, is_cut_off
        self.played: list[tuple[str, int]] = []

    def observation_space(self, agent: str) -> Box:
        return Box(0, 99, (1,), np.float32)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(3)

    def observe(self, agent: str) -> Any:
        return np.array([self.turn], np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection, self.turn = self.agents[0], 0

    def step(self, action: Any) -> None:
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            return
        self.played.append((mover, action))
        self._cumulative_rewards[mover] = 0.0
        self.rewards = {one: self.script[self.turn].get(one, 0.0) for one in self.agents}
        if (dead := self.dies.get(self.turn)) in self.agents:
            self.terminations[dead] = True
        self.turn += 1
        if self.turn == len(self.script):
            ends = self.truncations if self.is_cut_off else self.terminations
            ends.update({one: True for one in self.agents if one != dead})
        order = [*self.possible_agents, *self.possible_agents]
        after = order[order.index(mover) + 1 :]
        lives = [one for one in after if one in self.agents and not self.terminations[one]]
        self.agent_selection = lives[0] if lives else self.agents[0]
        self._accumulate_rewards()
        self._deads_step_first()


class WrongTurn(Told):
    def step(self, action: Any) -> None:
        super().step(action)
        if self.turn == 2:
            self.agent_selection = "nobody"


class Repeat(Told):
    """Two players. Each is paid when the next one has acted, if it chose what it saw."""

    possible_agents = ("a", "b")

    def __init__(self, length: int = 8) -> None:
        super().__init__([{}] * length)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self._random = np.random.default_rng(seed)
        super().reset(seed)
        self.shown, self.was_right = int(self._random.integers(3)), 0.0

    def observe(self, agent: str) -> Any:
        return np.array([self.shown], np.float32)

    def step(self, action: Any) -> None:
        mover = self.agent_selection
        if not (self.terminations[mover] or self.truncations[mover]):
            other = self.possible_agents[mover == "a"]
            self.script = [{other: self.was_right}] * len(self.script)
            self.was_right = float(action == self.shown)
            self.shown = int(self._random.integers(3))
        super().step(action)
