"""A simulator for tests that need no CybORG: it counts, and shows what it was given."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage4.agent.raw_record import RAW
from workflow_rl.cage4.scenario.scenario4 import (
    AGENTS,
    CHALLENGE,
    N_ACTIONS,
    OBS_SIZES,
    SLEEP_ACTIONS,
    Scenario,
)
from workflow_rl.cage4.scenario.simulator_protocol import StepResult


@dataclass(eq=False)
class CountingSimulator:
    """The reward of step t of an episode is -t. All actions take one step.

    differs_at: the step in which its own seed of the true state changes. fails_at: the step that
    raises. shows_at: the step in which the raw observations show a file. scenario: is kept.
    """

    red_agent: str = "SleepAgent"
    max_steps: int = 500
    differs_at: int | None = None
    fails_at: int | None = None
    shows_at: int | None = None
    scenario: Scenario = CHALLENGE
    streams: list[int] = field(default_factory=list)
    seeds: list[int | None] = field(default_factory=list)
    seen: list[tuple[list[int], Any]] = field(default_factory=list)
    step_count = 0
    costs = np.zeros(0)

    def start_stream(self, seed: int) -> None:
        self.streams.append(seed)

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        self.seeds.append(seed)
        self.step_count = 0
        return self._observations()

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        self.step_count += 1
        if self.step_count == self.fails_at:
            raise SimulationError(f"no step {self.fails_at}")
        self.seen.append((list(actions), messages))
        done = self.step_count >= self.max_steps - 1
        return StepResult(self._observations(), -self.step_count, -self.step_count, 0, done)

    def _observations(self) -> tuple[NDArray[np.int64], ...]:
        return tuple(np.zeros(size, np.int64) for size in OBS_SIZES)

    @property
    def masks(self) -> tuple[NDArray[np.bool_], ...]:
        """Each agent may sleep, and take the first action."""
        masks = []
        for n, sleep in zip(N_ACTIONS, SLEEP_ACTIONS, strict=True):
            mask = np.zeros(n, np.bool_)
            mask[[0, sleep]] = True
            masks.append(mask)
        return tuple(masks)

    @property
    def phase(self) -> int:
        return 0

    @property
    def busy_steps(self) -> NDArray[np.int64]:
        return np.zeros(len(AGENTS), np.int64)

    def raw_observations(self) -> tuple[dict[str, Any], ...]:
        files = ["cmd.sh"] if self.step_count == self.shows_at else []
        return tuple({"success": "TRUE", "host_0": {"Files": files}} for _ in AGENTS)

    def raw_arrays(self) -> NDArray[Any]:
        return np.zeros(1, RAW)

    def true_state(self) -> list[Any]:
        differs = self.differs_at is not None and self.step_count >= self.differs_at
        return [[["host_0", self.step_count, ["sshd", 22 + differs]]], []]

    def generator_state(self) -> tuple[int, int, int, int]:
        return self.step_count, 0, 0, 0
