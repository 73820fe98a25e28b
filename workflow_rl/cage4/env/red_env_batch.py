"""CAGE-4 envs in which a red team learns, beside a blue team that does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.network_batch import mask_of
from workflow_rl.cage4.agent.blue_team import Seen, TeamMaker
from workflow_rl.cage4.agent.mixed_teams import MixedTeams
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.compiled.red_simulator import RedSimulator
from workflow_rl.cage4.red.red_api import RED_TEAM
from workflow_rl.cage4.scenario.scenario4 import AGENTS, CHALLENGE, MESSAGE_BITS, Scenario
from workflow_rl.cage4.scenario.simulator_protocol import SimulationError
from workflow_rl.environments.env_batch import EpisodeError, Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec


class RedTeamEnvs:
    """Networks in rows of `red_api.red_layout`. An EnvBatch.

    A red agent that has no session yet, or not any more, is busy. blues: the teams that defend, of
    which each episode draws one with their weights.
    """

    def __init__(
        self,
        n_envs: int,
        max_steps: int,
        blues: Sequence[TeamMaker],
        weights: Sequence[float],
        scenario: Scenario = CHALLENGE,
    ) -> None:
        self.n_envs = n_envs
        self._blue = MixedTeams([make_blue(n_envs) for make_blue in blues], weights)
        self._simulator = RedSimulator(n_envs, max_steps, self._blue.reads_raw, scenario)
        self._specs: dict[int, EpisodeSpec] = {}
        self._blues = np.tile(SLEEP, (n_envs, 1))
        self._messages = np.zeros((n_envs, len(AGENTS), MESSAGE_BITS), np.int8)
        self._reds = np.zeros((n_envs, len(RED_TEAM)), np.int64)

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Return rows [M, row_size]."""
        simulator, of, seeds = self._simulator, list(envs), [0] * self.n_envs
        self._specs.update(zip(of, specs, strict=True))
        for env, spec in zip(of, specs, strict=True):
            seeds[env] = spec.env_seed
        simulator.reset(seeds, mask_of(of, self.n_envs))
        blue_seeds = [spec.env_seed for spec in specs]
        self._blue.begin(of, blue_seeds, simulator.masks[of], self._seen(of))
        return simulator.rows[of]

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once. actions: [M, 6], indices of `red_api.RED_CHOICES`."""
        simulator, of = self._simulator, list(envs)
        self._blues[of], self._messages[of] = self._blue.act(of)
        self._reds[of] = actions
        simulator.choose(self._reds)
        try:
            simulator.play(self._blues, self._messages, mask_of(of, self.n_envs))
        except SimulationError as error:
            failed = np.flatnonzero(simulator.states["error"])[-1]
            raise EpisodeError(self._specs[int(failed)]) from error
        self._blue.see(of, self._blues[of], self._seen(of))
        # 0.0 - x is never -0.0.
        rewards = 0.0 - simulator.rewards[of].sum(axis=1)
        ended = simulator.dones[of]
        return StepAnswers(simulator.rows[of], rewards, np.zeros_like(ended), ended)

    def _seen(self, envs: list[int]) -> Seen:
        simulator = self._simulator
        busy = simulator.states["blue_ticks"][envs].astype(np.int64)
        raw = simulator.raw[envs] if len(simulator.raw) else simulator.raw
        return Seen(simulator.obs[envs], raw, busy)

    def close(self) -> None:
        """Do nothing: there is nothing to free."""
