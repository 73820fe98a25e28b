"""One compiled network with the interface of all simulators."""

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
    """A `simulator_protocol.Simulator` that plays one compiled network.

    max_steps: the longest episode. attackers: further red agents, by name. tables: the scenario."""

    def __init__(
        self,
        max_steps: int = SIZES[0],
        attackers: Mapping[str, AttackerBatch] = NO_ATTACKERS,
        tables: Tables = SCENARIO2,
    ) -> None:
        super().__init__(batch_with(1, max_steps, attackers, tables))
        # Reading a row of a tuple is faster than reading a row of an array.
        self._masks = tuple(self.batch.masks_of_hosts)
        self._action = np.zeros(1, np.int64)

    def reset(self, seed: int, red_agent: str) -> NDArray[np.uint8]:
        """Start the episode that CybORG plays after `random.seed(seed)`. Return the observation."""
        return self.batch.reset(abs(seed), self.batch.red_agents.index(red_agent))[0]

    def step(self, action: int) -> tuple[NDArray[np.uint8], float]:
        """Play one step. Return the observation, which the next call overwrites, and the reward.

        action: an index into `Scenario.action_names`."""
        batch = self.batch
        self._action[0] = action
        batch.play(self._action, self.chosen)
        return batch.obs[0], batch.rewards.item()

    @property
    def facts(self) -> Facts:
        facts = self.batch.facts[0].tolist()
        blue_success, red_action, red_target, red_success, caught_host = facts
        caught = self._masks[caught_host].copy()
        return blue_success, red_action, red_target, red_success, caught

    @property
    def held(self) -> tuple[int, int]:
        hosts = np.flatnonzero(self.state["n_red_sessions"]).tolist()
        return sum(1 << host for host in hosts), int(self.state["is_owned"])

    @property
    def texts(self) -> tuple[str, str]:
        tables = self.batch.tables
        return tables.scenario.action_names[self._action[0]], red_action_of(self.state, tables)
