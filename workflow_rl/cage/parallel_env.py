"""The base class of the envs that have PettingZoo's ParallelEnv interface."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from gymnasium.spaces import Discrete, Space

if TYPE_CHECKING:
    ParallelEnv = object
else:
    try:
        # PettingZoo's tools check that an env is an instance of this class.
        from pettingzoo import ParallelEnv
    except ImportError:
        ParallelEnv = object

Stepped: TypeAlias = tuple[
    dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]
"""Observations, rewards, terminations, truncations and infos, by agent."""


class PlainParallelEnv(ParallelEnv):
    """A ParallelEnv without pictures. Shallow and deep copies share nothing with the original."""

    render_mode = None
    agents: list[str]
    possible_agents: list[str]
    observation_spaces: dict[str, Space[Any]]
    action_spaces: dict[str, Discrete]

    @property
    def unwrapped(self) -> Self:
        return self

    @property
    def num_agents(self) -> int:
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        return len(self.possible_agents)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def observation_space(self, agent: str) -> Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        return self.action_spaces[agent]

    def render(self) -> None:
        """Do nothing: there are no pictures."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
