"""The compiled simulator of one network."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.network_batch import OneNetwork, SimulationError
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.compiled.constants import N_BLUE
from workflow_rl.cage4.compiled.raw_observations import raw_observations
from workflow_rl.cage4.compiled.true_state import true_state
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.scenario4 import CHALLENGE, Scenario
from workflow_rl.cage4.scenario.simulator_protocol import (
    StepResult,
    checked_actions,
    checked_messages,
)


def observations_of(row: NDArray[np.int8]) -> tuple[NDArray[np.int64], ...]:
    """Return the five observations, int64 `[92]` or `[210]`, from a row of obs."""
    return tuple(np.split(row.astype(np.int64), scenario4.FIRST_OBS[1:]))


def masks_by_agent(row: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], ...]:
    """Return the five masks, bool `[82]` or `[242]`, from a row of masks."""
    return tuple(part.copy() for part in np.split(row, scenario4.FIRST_ACTION[1:]))


class CompiledSimulator(OneNetwork[BatchedSimulator]):
    """One network, as a `simulator_protocol.Simulator`."""

    def __init__(
        self,
        red_agent: str,
        max_steps: int,
        scenario: Scenario = CHALLENGE,
        measures: bool = False,
    ) -> None:
        super().__init__(self._made(red_agent, max_steps, scenario, measures))
        self.red_agent = red_agent
        self.max_steps = max_steps
        self._masks: tuple[NDArray[np.bool_], ...] = ()

    def _made(
        self, red_agent: str, max_steps: int, scenario: Scenario, measures: bool
    ) -> BatchedSimulator:
        return BatchedSimulator(1, max_steps, red_agent, scenario=scenario, measures=measures)

    def start_stream(self, seed: int) -> None:
        self.reset(seed)

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        self.batch.reset([seed])
        self._masks = masks_by_agent(self.batch.masks[0])
        return observations_of(self.batch.obs[0])

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        taken = np.array([checked_actions(actions)], np.int64)
        sent = checked_messages(messages)[None].view(np.int8)
        try:
            self.batch.play(taken, sent, self.chosen)
        except SimulationError as error:
            raise SimulationError(error.why) from None
        machine, cost = map(int, self.batch.rewards[0])
        observations = observations_of(self.batch.obs[0])
        return StepResult(observations, machine + cost, machine, cost, bool(self.batch.dones[0]))

    @property
    def masks(self) -> tuple[NDArray[np.bool_], ...]:
        return self._masks

    @property
    def phase(self) -> int:
        return int(self.state["phase"])

    @property
    def busy_steps(self) -> NDArray[np.int64]:
        return self.state["blue_ticks"].astype(np.int64)

    @property
    def costs(self) -> NDArray[np.float64]:
        return self.batch.costs[0]

    def raw_observations(self) -> tuple[dict[str, Any], ...]:
        vectors = observations_of(self.batch.obs[0])
        received = np.array([vector[-scenario4.N_MESSAGE_BITS :] for vector in vectors])
        return raw_observations(self.state, received.reshape(N_BLUE, -1, scenario4.MESSAGE_BITS))

    def raw_arrays(self) -> NDArray[Any]:
        return self.batch.raw_arrays()

    def true_state(self) -> list[Any]:
        return true_state(self.state)

    def generator_state(self) -> tuple[int, int, int, int]:
        state = self.state
        word = int(state["pcg_high"]), int(state["pcg_low"])
        return *word, int(state["has_half"]), int(state["half"])
