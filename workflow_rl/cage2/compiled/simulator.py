"""Compiled networks as a worker's envs, and one behind the interface of all simulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.network_batch import NetworkEnvs, Numbers, OneNetwork
from workflow_rl.cage2.attackers import AttackerBatch
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage2.compiled.cyborg_words import red_action_of
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.red_simulator import NO_ATTACKERS, RedSimulator
from workflow_rl.cage2.compiled.state import SIZES
from workflow_rl.cage2.compiled.tables import Tables
from workflow_rl.cage2.scenario.simulator_protocol import Facts
from workflow_rl.environments.env_batch import Obs
from workflow_rl.environments.episode import EpisodeSpec


def batch_with(
    n_envs: int,
    max_steps: int,
    attackers: Mapping[str, AttackerBatch],
    tables: Tables | Sequence[Tables] = SCENARIO2,
) -> BatchedSimulator:
    """Return a simulator whose `red_agents` are CybORG's and the attackers, by name."""
    if not attackers:
        return BatchedSimulator(n_envs, max_steps, tables=tables)
    assert isinstance(tables, Tables), "attackers play one scenario"
    return RedSimulator(n_envs, max_steps, attackers, tables=tables)


class CompiledSimulator(OneNetwork[BatchedSimulator]):
    """One network behind `simulator_protocol.Simulator`, for episodes of `max_steps`.

    attackers: further red agents, by name. tables: the scenario.
    """

    def __init__(
        self,
        max_steps: int = SIZES[0],
        attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS,
        tables: Tables = SCENARIO2,
    ) -> None:
        super().__init__(batch_with(1, max_steps, attackers, tables))
        # A tuple hands out its rows faster than an array.
        self._masks = tuple(self.batch.masks_of_hosts)
        self._action = np.zeros(1, np.int64)

    def reset(self, seed: int, red_agent: str) -> NDArray[np.uint8]:
        """Start an episode with the draws that follow `random.seed(seed)`."""
        return self.batch.reset(abs(seed), self.batch.red_agents.index(red_agent))[0]

    def step(self, action: int) -> tuple[NDArray[np.uint8], float]:
        """Play one step: observation (bits, overwritten by the next call) and reward.

        action: an index into `Scenario.action_names`.
        """
        batch = self.batch
        self._action[0] = action
        batch.play(self._action, self.chosen)
        return batch.obs[0], batch.rewards.item()

    @property
    def facts(self) -> Facts:
        ((blue, action, target, red, caught_host),) = self.batch.facts.tolist()
        return blue, action, target, red, self._masks[caught_host].copy()

    @property
    def texts(self) -> tuple[str, str]:
        tables = self.batch.tables
        return tables.scenario.action_names[self._action[0]], red_action_of(self.state, tables)


class CompiledEnvs(NetworkEnvs):
    """`n_envs` networks that step in one call of compiled code, as Blue's policy plays them.

    They play what as many `Cage2Env` play.

    attackers: further red agents, by name. An episode's variant names its red agent. tables: the
    scenario, or several, of which each episode plays one by its seed.

    playing: the number of the scenario that each env plays, `[n_envs]`.
    """

    def __init__(
        self,
        max_steps: int,
        n_envs: int,
        attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS,
        tables: Tables | Sequence[Tables] = SCENARIO2,
    ) -> None:
        super().__init__(n_envs, max_steps)
        self.batch = batch_with(n_envs, max_steps, attackers, tables)
        self.playing = np.zeros(n_envs, np.int64)

    def _begin(
        self, envs: Numbers, specs: Sequence[EpisodeSpec], seeds: Numbers, mask: NDArray[np.bool_]
    ) -> Obs:
        red_agents = np.zeros(self.n_envs, np.int64)
        red_agents[envs] = [self.batch.red_agents.index(spec.variant) for spec in specs]
        self.playing[envs] = seeds[envs] % len(self.batch.family)
        return self.batch.reset(seeds, red_agents, mask, self.playing)[envs]

    def _play(
        self, envs: Numbers, actions: Actions, mask: NDArray[np.bool_]
    ) -> tuple[Obs, NDArray[Any]]:
        all_actions = np.zeros(self.n_envs, np.int64)
        all_actions[envs] = actions
        obs, rewards = self.batch.step(all_actions, mask)
        return obs[envs], rewards[envs]
