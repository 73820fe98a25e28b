"""Many networks at once, in which the caller also chooses what red agents do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.cage.network_batch import of_shape
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.compiled.constants import N_RED
from workflow_rl.cage4.compiled.jit import entry_point
from workflow_rl.cage4.compiled.red_from_outside import show_red
from workflow_rl.cage4.compiled.red_tables import FROM_OUTSIDE
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.red import red_api
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.scenario4 import CHALLENGE, Scenario


@entry_point
def show_reds(states: Any, chosen: Any, rows: Any) -> None:
    """Write what red agents see in those of the chosen envs whose red agents are FROM_OUTSIDE.

    chosen: bool `[N]`. rows: uint8 `[N, N_RED_ROW]`."""
    for i in range(len(states)):
        if chosen[i] and states[i].red_class == FROM_OUTSIDE:
            show_red(states[i], rows[i])


class RedSimulator(BatchedSimulator):
    """N networks in which the caller plays both teams: see `BatchedSimulator`.

    rows: uint8 `[N, N_RED_ROW]`, what the red agents see, and the actions whose targets they know:
        see `red_api.red_layout`. The next call overwrites this array. If `set_red_agent` has set
        another class than FROM_OUTSIDE for an env, its row is not written."""

    def __init__(
        self,
        n_envs: int,
        max_steps: int = scenario4.MAX_STEPS,
        shows_raw: bool = False,
        scenario: Scenario = CHALLENGE,
        measures: bool = False,
    ) -> None:
        self.rows = np.zeros((n_envs, red_api.N_RED_ROW), np.uint8)
        super().__init__(n_envs, max_steps, scenario4.FROM_OUTSIDE, shows_raw, scenario, measures)

    @property
    def _shown(self) -> tuple[NDArray[Any], ...]:
        return *super()._shown, self.rows

    def choose(self, choices: ArrayLike, sessions: ArrayLike = red_api.FIRST_KNOWN) -> None:
        """Set what the red agents do in the next steps, until the next call.

        choices: `[N, 6]`, indices of `red_api.RED_CHOICES`. A busy agent's choice is dropped. If
            the agent does not know the target, the action becomes an InvalidAction.
        sessions: `[N, 6]`, the ids of the sessions to act with, or FIRST_KNOWN. If the agent does
            not know the id, the action becomes an InvalidAction.
        """
        shape = len(self.states), N_RED
        chosen = red_api.checked_red_choices(of_shape("choices", choices, shape))
        ids = red_api.checked_red_sessions(of_shape("sessions", sessions, shape))
        self.states["red_choice"] = chosen
        self.states["red_choice_session"] = ids

    def reset(
        self, seeds: Sequence[int | None] | None = None, chosen: ArrayLike | None = None
    ) -> NDArray[np.int8]:
        """Start episodes as `BatchedSimulator.reset` does. All red agents choose to sleep."""
        super().reset(seeds, chosen)
        show_reds(self.states, self._mask(chosen), self.rows)
        return self.obs

    def play(
        self, actions: NDArray[np.int64], messages: NDArray[np.int8], chosen: NDArray[np.bool_]
    ) -> None:
        super().play(actions, messages, chosen)
        show_reds(self.states, chosen, self.rows)


class CompiledRedSide(CompiledSimulator):
    """One network behind `simulator_protocol.RedSideSimulator`."""

    batch: RedSimulator

    def _made(
        self, red_agent: str, max_steps: int, scenario: Scenario, measures: bool
    ) -> RedSimulator:
        return RedSimulator(1, max_steps, scenario=scenario, measures=measures)

    def choose(self, choices: Sequence[int], sessions: Sequence[int]) -> None:
        self.batch.choose([choices], [sessions])

    def red_row(self) -> NDArray[np.uint8]:
        return self.batch.rows[0].copy()

    def red_sessions(self) -> list[list[int]]:
        known = zip(self.state["ids"], self.state["n_ids"], strict=True)
        return [ids[:n].tolist() for ids, n in known]
