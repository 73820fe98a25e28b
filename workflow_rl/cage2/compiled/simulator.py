"""One compiled network behind the interface of all simulators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.network_batch import OneNetwork
from workflow_rl.cage2.attackers import AttackerBatch
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage2.compiled.cyborg_words import red_action_of
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.red_simulator import NO_ATTACKERS, batch_with
from workflow_rl.cage2.compiled.state import SIZES
from workflow_rl.cage2.compiled.tables import Tables
from workflow_rl.cage2.scenario.simulator_protocol import Facts


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
