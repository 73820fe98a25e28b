"""The sped-up CybORG 4 as a simulator. See `speedups` for what is left out, and why."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.cyborg.draws import Draws
from workflow_rl.cage4.cyborg.episode import Episode
from workflow_rl.cage4.cyborg.raw_observations import sped_up_observations
from workflow_rl.cage4.cyborg.speedups import sped_up_cyborg
from workflow_rl.cage4.cyborg.stock import CyborgSimulator
from workflow_rl.cage4.cyborg.true_state import cyborg_state
from workflow_rl.cage4.cyborg.vectors import Vectors
from workflow_rl.cage4.scenario.simulator_protocol import (
    StepResult,
    checked_actions,
    checked_messages,
    seed_or_none,
)


class SpedUpNetwork(CyborgSimulator):
    """See `Simulator`."""

    load = staticmethod(sped_up_cyborg)
    _controller: Episode
    _draws: Draws | None = None

    def start_stream(self, seed: int) -> None:
        self._draws = Draws(seed_or_none(seed))
        self._begin()

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        if seed is not None or self._draws is None:
            self._draws = Draws(seed_or_none(seed))
        self._begin()
        return self._vectors.observations(None)

    def _begin(self) -> None:
        assert self._draws is not None
        self._controller = Episode(self._cyborg, self._scenario_generator, self._draws)
        self._vectors = Vectors(self._cyborg, self._controller.state)
        self._messages = checked_messages(None)
        self._reader.begin(self.raw_observations())
        self._counter.begin(self._controller.state)

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        taken = self._vectors.actions(checked_actions(actions))
        self._messages = checked_messages(messages)
        try:
            machine, cost = self._controller.step(taken)
        except Exception as error:
            raise self._failure(error) from error
        self._counter.count(self._controller, self._controller.outcomes, -cost)
        return StepResult(
            self._vectors.observations(self._messages),
            machine + cost,
            machine,
            cost,
            self._controller.step_count >= self.max_steps - 1,
        )

    @property
    def masks(self) -> tuple[NDArray[np.bool_], ...]:
        return self._vectors.masks

    def raw_observations(self) -> tuple[dict[str, Any], ...]:
        return sped_up_observations(self._cyborg, self._controller, self._messages)

    def true_state(self) -> list[Any]:
        return cyborg_state(self._controller.as_controller())

    def generator_state(self) -> tuple[int, int, int, int]:
        assert self._draws is not None
        return self._draws.state()
