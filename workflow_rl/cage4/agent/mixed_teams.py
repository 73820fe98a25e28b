"""Several teams, of which each episode draws one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.policies.mixed_actor import Lineup
from workflow_rl.cage4.agent.belief import N_AGENTS, Bits, Joint
from workflow_rl.cage4.agent.blue_team import BlueSees, BlueTeam
from workflow_rl.cage4.scenario.scenario4 import MESSAGE_BITS


class MixedTeams:
    """See `blue_team.BlueTeam`. weights: of the teams; the seed of an episode draws one."""

    def __init__(self, teams: Sequence[BlueTeam], weights: Sequence[float]) -> None:
        self._teams, self._draws = teams, Lineup(weights)
        self.reads_raw = any(team.reads_raw for team in teams)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        for env, seed in zip(envs, seeds, strict=True):
            self._draws.begin(seed, env)
        for number, places, of in self._draws.parts(envs):
            drawn = [seeds[place] for place in places.tolist()]
            self._teams[number].begin(of, drawn, masks[places], seen.of(places))

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits]:
        actions = np.zeros((len(envs), N_AGENTS), np.int64)
        sent = np.zeros((*actions.shape, MESSAGE_BITS), np.bool_)
        for number, places, of in self._draws.parts(envs):
            actions[places], messages = self._teams[number].act(of)
            if messages is not None:
                sent[places] = messages
        return actions, sent

    def see(self, envs: Sequence[int], taken: Joint, seen: BlueSees) -> None:
        for number, places, of in self._draws.parts(envs):
            self._teams[number].see(of, taken[places], seen.of(places))
