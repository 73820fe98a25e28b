"""One environment behind the simulators' interface."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.compiled.constants import N_BLUE
from workflow_rl.cage4.compiled.raw_observations import raw_observations
from workflow_rl.cage4.compiled.true_state import true_state
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.scenario4 import CHALLENGE, Scenario
from workflow_rl.cage4.scenario.simulator_protocol import (
    SimulationError,
    StepResult,
    checked_actions,
    checked_messages,
)


def observations_of(row: NDArray[np.int8]) -> tuple[NDArray[np.int64], ...]:
    """Return the five observations, int64 `[92]` or `[210]`, from a row of obs."""
    wide, ends = row.astype(np.int64), (*scenario4.FIRST_OBS[1:].tolist(), scenario4.N_OBS)
    return tuple(
        wide[end - size : end] for size, end in zip(scenario4.OBS_SIZES, ends, strict=True)
    )


def masks_by_agent(row: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], ...]:
    """Return the five masks, bool `[82]` or `[242]`, from a row of masks."""
    return tuple(part.copy() for part in np.split(row, scenario4.FIRST_ACTION[1:]))


class CompiledSimulator:
    """One network behind `simulator_protocol.Simulator`."""

    def __init__(self, red_agent: str, max_steps: int, scenario: Scenario = CHALLENGE) -> None:
        self.red_agent, self.max_steps = red_agent, max_steps
        self._envs = self._made(red_agent, max_steps, scenario)
        self._masks: tuple[NDArray[np.bool_], ...] = ()
        self._chosen = np.ones(1, np.bool_)

    def _made(self, red_agent: str, max_steps: int, scenario: Scenario) -> BatchedSimulator:
        return BatchedSimulator(1, max_steps, red_agent, scenario=scenario)

    __copy__ = copy.deepcopy

    @property
    def state(self) -> Any:
        """The network itself, a record of `state.state_for(max_steps)`."""
        return self._envs.states[0]

    def start_stream(self, seed: int) -> None:
        """Seed the generator, and draw one scenario that is not played."""
        self.reset(seed)

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        """Begin an episode and return its five observations."""
        self._envs.reset([seed])
        self._masks = masks_by_agent(self._envs.masks[0])
        return observations_of(self._envs.obs[0])

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        """Play one step."""
        taken = np.array([checked_actions(actions)], np.int64)
        sent = checked_messages(messages)[None].view(np.int8)
        try:
            self._envs.play(taken, sent, self._chosen)
        except SimulationError as error:
            raise SimulationError(str(error).removeprefix("env 0: ")) from None
        machine, cost = map(int, self._envs.rewards[0])
        observations = observations_of(self._envs.obs[0])
        return StepResult(observations, machine + cost, machine, cost, bool(self._envs.dones[0]))

    @property
    def masks(self) -> tuple[NDArray[np.bool_], ...]:
        return self._masks

    @property
    def phase(self) -> int:
        return int(self.state["phase"])

    @property
    def busy_steps(self) -> NDArray[np.int64]:
        return self.state["blue_ticks"].astype(np.int64)

    def raw_observations(self) -> tuple[dict[str, Any], ...]:
        vectors = observations_of(self._envs.obs[0])
        received = np.array([vector[-scenario4.N_MESSAGE_BITS :] for vector in vectors])
        return raw_observations(self.state, received.reshape(N_BLUE, -1, scenario4.MESSAGE_BITS))

    def raw_arrays(self) -> NDArray[Any]:
        return self._envs.raw_arrays()

    def true_state(self) -> list[Any]:
        return true_state(self.state)

    def generator_state(self) -> tuple[int, int, int, int]:
        high, low, has_half, half = (
            int(self.state[name]) for name in ("pcg_high", "pcg_low", "has_half", "half")
        )
        return high, low, has_half, half
