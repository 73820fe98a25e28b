"""CAGE Challenge 3 with messages: each drone sends its number, and misses whom it does not hear.

A connected drone that is not heard is Red's, or was retaken in the last step. Messages are those of
the challenge: 16 bits, from each drone that acts to all drones that it is connected to. CybORG's
wrapper takes the same action objects in all steps; one that was dropped or blocked once fails for
the rest of the episode. Here they begin anew, as those that agents of the challenge make do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gym import spaces

from workflow_rl.field import cage3


class _Numbered(cage3.PettingZooParallelWrapper):
    def __init__(self, cyborg: Any) -> None:
        super().__init__(cyborg)
        self.msg_len = len(self.possible_agents)
        for agent, seen in self._observation_spaces.items():
            n_values = [*seen.nvec, *[2] * self.msg_len]
            self._observation_spaces[agent] = spaces.MultiDiscrete(n_values)

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


class Listening(cage3.Drones):
    """The swarm, whose observations end with a number for each drone: 1 if it is missed."""

    wrapper = _Numbered
