"""CAGE-4 envs in which a red team learns against blue teams that do not learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.actors import Lineup
from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.network_batch import NetworkEnvs, Numbers
from workflow_rl.cage4.agent.belief import N_AGENTS, Bits, Joint
from workflow_rl.cage4.agent.blue_team import BlueSees, BlueTeam, TeamMaker
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.compiled.red_simulator import RedSimulator
from workflow_rl.cage4.red.red_api import RED_TEAM
from workflow_rl.cage4.scenario.scenario4 import AGENTS, CHALLENGE, MESSAGE_BITS, Scenario
from workflow_rl.environments.env_batch import Obs
from workflow_rl.environments.episode import EpisodeSpec


class RedTeamEnvs(NetworkEnvs):
    """Networks that a red team plays, with rows of `red_api.red_layout`.

    A red agent without a session counts as busy. blues: the makers of the teams that defend. Each
    episode draws a team by the weights.
    """

    def __init__(
        self,
        n_envs: int,
        max_steps: int,
        blues: Sequence[TeamMaker],
        weights: Sequence[float],
        scenario: Scenario = CHALLENGE,
    ) -> None:
        super().__init__(n_envs, max_steps - 1)
        self._blue = MixedTeams([make_blue(n_envs) for make_blue in blues], weights)
        self._simulator = RedSimulator(n_envs, max_steps, self._blue.reads_raw, scenario)
        self._blues = np.tile(SLEEP, (n_envs, 1))
        self._messages = np.zeros((n_envs, len(AGENTS), MESSAGE_BITS), np.int8)
        self._reds = np.zeros((n_envs, len(RED_TEAM)), np.int64)

    def _begin(
        self, envs: Numbers, specs: Sequence[EpisodeSpec], seeds: Numbers, mask: NDArray[np.bool_]
    ) -> Obs:
        simulator = self._simulator
        numbers = envs.tolist()
        simulator.reset(seeds.tolist(), mask)
        self._blue.begin(
            numbers, seeds[numbers].tolist(), simulator.masks[numbers], self._seen(numbers)
        )
        return simulator.rows[numbers]

    def _play(
        self, envs: Numbers, actions: Actions, mask: NDArray[np.bool_]
    ) -> tuple[Obs, NDArray[Any]]:
        """actions: [M, 6], indices of `red_api.RED_CHOICES`."""
        simulator = self._simulator
        numbers = envs.tolist()
        self._blues[numbers], self._messages[numbers] = self._blue.act(numbers)
        self._reds[numbers] = actions
        simulator.choose(self._reds)
        simulator.play(self._blues, self._messages, mask)
        self._blue.see(numbers, self._blues[numbers], self._seen(numbers))
        # Red's reward is minus Blue's. 0.0 - x is never -0.0, which -x can be.
        return simulator.rows[numbers], 0.0 - simulator.rewards[numbers].sum(axis=1)

    def _seen(self, envs: list[int]) -> BlueSees:
        simulator = self._simulator
        busy = simulator.states["blue_ticks"][envs].astype(np.int64)
        raw = simulator.raw[envs] if len(simulator.raw) else simulator.raw
        return BlueSees(simulator.obs[envs], raw, busy)


class MixedTeams:
    """Several teams as one `blue_team.BlueTeam`. An episode's seed draws the team that plays the
    episode, by the teams' weights."""

    def __init__(self, teams: Sequence[BlueTeam], weights: Sequence[float]) -> None:
        self._teams = teams
        self._draws = Lineup(weights)
        self.reads_raw = any(team.reads_raw for team in teams)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        for env, seed in zip(envs, seeds, strict=True):
            self._draws.begin(seed, env)
        for number, places, team_envs in self._draws.parts(envs):
            team_seeds = [seeds[place] for place in places.tolist()]
            self._teams[number].begin(team_envs, team_seeds, masks[places], seen.of(places))

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits]:
        actions = np.zeros((len(envs), N_AGENTS), np.int64)
        sent = np.zeros((*actions.shape, MESSAGE_BITS), np.bool_)
        for number, places, team_envs in self._draws.parts(envs):
            actions[places], messages = self._teams[number].act(team_envs)
            if messages is not None:
                sent[places] = messages
        return actions, sent

    def see(self, envs: Sequence[int], taken: Joint, seen: BlueSees) -> None:
        for number, places, team_envs in self._draws.parts(envs):
            self._teams[number].see(team_envs, taken[places], seen.of(places))
