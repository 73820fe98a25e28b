"""A team whose trained policies play.

This module needs NumPy and `agents` alone, because submissions contain a copy."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.cage4.agent.belief import Bits, Joint
from workflow_rl.cage4.agent.blue_team import BlueSees
from workflow_rl.cage4.agent.views import ViewRows


class PolicyTeam:
    """A `blue_team.BlueTeam` that plays with a copy of `policy`.

    observation, actions, messages: the arguments of the environment that the policies learned in.
    """

    def __init__(
        self, n_envs: int, policy: TeamPolicy, observation: str, actions: str, messages: str
    ) -> None:
        self._policy = copy.deepcopy(policy)
        layout = policy.parameters.layout
        self._views = ViewRows(n_envs, observation, actions, layout.own_rewards, messages)
        self.reads_raw = self._views.reads_raw
        self._rows = np.zeros((n_envs, layout.row_size), np.float32)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        for env, seed in zip(envs, seeds, strict=True):
            self._policy.reset(seed, env)
        self._rows[envs] = self._views.begin(envs, seen.obs, masks, seen.raw, seen.busy)

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits | None]:
        decided, _ = self._policy.act(self._rows[envs], envs)
        taken = self._views.play(envs, decided)
        sent = self._views.sent
        return taken, None if sent is None else sent[envs]

    def see(self, envs: Sequence[int], taken: Joint, seen: BlueSees) -> None:
        ended = np.zeros(len(envs), np.bool_)
        self._rows[envs] = self._views.after(envs, taken, *seen, ended)
