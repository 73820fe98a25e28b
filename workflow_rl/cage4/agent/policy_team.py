"""A trained team that plays one episode at a time, from what the challenge shows five agents.

This module needs NumPy and `agents` alone, because submissions contain a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.cage4.actions import BLUE
from workflow_rl.cage4.agent.belief import Bits
from workflow_rl.cage4.agent.views import SLEEP, VIEWS, ViewRows
from workflow_rl.cage4.scenario4 import ACTIONS, AGENTS


class PolicyTeam:
    """Policies behind `scripted.ScriptedTeam`.

    observation, actions, messages: the arguments of the environment that the policies learned in.
    """

    def __init__(
        self,
        policy: TeamPolicy,
        observation: str,
        actions: str,
        messages: str = "none",
    ) -> None:
        self.policy = policy
        own_rewards = policy.parameters.layout.own_rewards
        self._made_with = observation, actions, own_rewards, messages
        self.reads_raw = VIEWS[observation].reads_raw

    def views(self, n_envs: int) -> ViewRows:
        """Return what makes the policies' rows in `n_envs` envs."""
        return ViewRows(n_envs, *self._made_with)

    def reset(self, masks: Sequence[Bits], seed: int) -> None:
        self.policy.reset(seed)
        self._rows = self.views(1)
        self._masks: Bits | None = np.concatenate(masks)[None]
        self._busy = np.zeros((1, len(AGENTS)), np.int64)
        self._taken = SLEEP[None]

    def act(
        self, observations: Sequence[NDArray[np.int64]], look: Callable[[], NDArray[Any]]
    ) -> tuple[list[int], Bits | None]:
        raw = look() if self.reads_raw else np.zeros(0)
        obs = np.concatenate(observations)[None].astype(np.int8)
        if self._masks is not None:
            row = self._rows.begin([0], obs, self._masks, raw, self._busy)
            self._masks = None
        else:
            ended = np.zeros(1, np.bool_)
            row = self._rows.after([0], self._taken, obs, raw, self._busy, ended)
        actions, _ = self.policy.act(row)
        self._taken = self._rows.play([0], actions)
        for agent, action in enumerate(self._taken[0].tolist()):
            steps = self._busy[0, agent] or BLUE[ACTIONS[agent][action].kind].duration
            self._busy[0, agent] = steps - 1
        sent = self._rows.sent
        return self._taken[0].tolist(), None if sent is None else sent[0]
