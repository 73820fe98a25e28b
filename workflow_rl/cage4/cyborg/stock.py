"""The published CybORG 4, behind the challenge's own wrapper."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage4.agent.raw_record import RawReader
from workflow_rl.cage4.cyborg.measures import CostCounter, Executed
from workflow_rl.cage4.cyborg.private_cyborg import Cyborg, published_cyborg
from workflow_rl.cage4.cyborg.raw_observations import stock_observations
from workflow_rl.cage4.cyborg.scenarios import scenario_generator
from workflow_rl.cage4.cyborg.true_state import cyborg_state, generator_state
from workflow_rl.cage4.scenario.scenario4 import AGENTS, CHALLENGE, Scenario
from workflow_rl.cage4.scenario.simulator_protocol import (
    StepResult,
    checked_actions,
    checked_messages,
    seed_or_none,
)


class CyborgSimulator:
    """The common base of CybORG's simulators. See `Simulator`.

    _controller: CybORG's `SimulationController`, or an object with its attributes.
    load: returns the import of CybORG that plays.
    """

    _controller: Any
    load: Callable[[], Cyborg]

    def __init__(
        self,
        red_agent: str,
        max_steps: int,
        scenario: Scenario = CHALLENGE,
        measures: bool = False,
    ) -> None:
        self.red_agent = red_agent
        self.max_steps = max_steps
        self._cyborg = type(self).load()
        self._scenario_generator = scenario_generator(self._cyborg, red_agent, max_steps, scenario)
        self._reader = RawReader()
        self._counter = CostCounter(measures)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The network holds modules and a running generator, which cannot be copied.
        raise TypeError("a network of CybORG cannot be copied: choose simulator='compiled'")

    @property
    def phase(self) -> int:
        return int(self._controller.state.mission_phase)

    @property
    def busy_steps(self) -> NDArray[np.int64]:
        actions = [self._controller.actions_in_progress.get(agent) for agent in AGENTS]
        return np.array([action["remaining_ticks"] if action else 0 for action in actions])

    @property
    def costs(self) -> NDArray[np.float64]:
        return self._counter.costs

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        raise NotImplementedError

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        raise NotImplementedError

    def raw_observations(self) -> tuple[dict[str, Any], ...]:
        raise NotImplementedError

    def raw_arrays(self) -> NDArray[Any]:
        return self._reader.read(self.raw_observations())

    def _failure(self, error: Exception) -> SimulationError:
        step = self._controller.step_count + 1
        return SimulationError(f"CybORG fails in step {step}: {type(error).__name__}: {error}")


class StockSimulator(CyborgSimulator):
    """CybORG with `BlueEnterpriseWrapper`, whose spaces are not padded. See `Simulator`."""

    load = staticmethod(published_cyborg)
    _env: Any = None

    def start_stream(self, seed: int) -> None:
        self._make_env(seed_or_none(seed))

    def _make_env(self, seed: int | None) -> None:
        cyborg = self._cyborg["env"].CybORG(self._scenario_generator, "sim", seed=seed)
        self._env = self._cyborg["Agents.Wrappers"].BlueEnterpriseWrapper(cyborg)
        self._controller = cyborg.environment_controller
        self._controller.execute_action = self._execute

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        if self._env is None:
            self._make_env(None)
        observations, infos = self._env.reset(seed=seed_or_none(seed))
        self._masks = tuple(np.array(infos[agent]["action_mask"], np.bool_) for agent in AGENTS)
        self._reader.begin(self.raw_observations())
        self._counter.begin(self._controller.state)
        return tuple(observations[agent] for agent in AGENTS)

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        taken = dict(zip(AGENTS, checked_actions(actions), strict=True))
        sent = dict(zip(AGENTS, checked_messages(messages), strict=True))
        self._outcomes: list[Executed] = []
        try:
            observations, _, dones, _, _ = self._env.step(taken, messages=sent)
        except Exception as error:
            raise self._failure(error) from error
        parts = self._controller.reward["Blue"]
        machine = int(parts["BlueRewardMachine"])
        cost = int(parts["action_cost"])
        self._counter.count(self._controller, self._outcomes, -cost)
        return StepResult(
            tuple(observations[agent] for agent in AGENTS),
            machine + cost,
            machine,
            cost,
            dones[AGENTS[0]],
        )

    def _execute(self, action: Any) -> Any:
        """`SimulationController.execute_action`. Also notes the outcome for the costs."""
        observation = action.execute(self._controller.state)
        self._outcomes.append(Executed.of(action, observation))
        return observation

    @property
    def masks(self) -> tuple[NDArray[np.bool_], ...]:
        return self._masks

    def raw_observations(self) -> tuple[dict[str, Any], ...]:
        return stock_observations(self._controller)

    def true_state(self) -> list[Any]:
        return cyborg_state(self._controller)

    def generator_state(self) -> tuple[int, int, int, int]:
        return generator_state(self._controller.np_random.bit_generator.state)
