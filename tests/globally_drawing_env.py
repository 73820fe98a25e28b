"""An env that draws from the random state of the whole process, as several cyber simulators do."""

import random
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray


class GloballyDrawing(gymnasium.Env[NDArray[Any], Any]):
    """Draws when it is made, in reset and in step, from Python's and from NumPy's state."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._scale = np.random.uniform()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._drawn(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        obs = self._drawn()
        return obs, float(obs[action]), random.random() < 0.1, False, {}

    def _drawn(self) -> NDArray[Any]:
        return np.array([random.random(), self._scale * np.random.normal()], np.float32)


class GloballyDrawingGame:
    """A ParallelEnv of two agents, whose payoffs are drawn in the same way."""

    metadata: ClassVar = {"name": "drawing"}
    render_mode = None
    possible_agents = ("first", "second")

    def observation_space(self, agent: str) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent: str) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        self.agents = list(self.possible_agents)
        return self._of_both(np.ones(1, np.float32)), self._of_both({})

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        payoff = np.random.uniform() * (1 if actions["first"] == actions["second"] else -1)
        shown, end = self._of_both(np.ones(1, np.float32)), random.random() < 0.3
        rewards = {"first": payoff, "second": -payoff}
        answer = shown, rewards, self._of_both(end), self._of_both(False), self._of_both({})
        self.agents = [] if end else self.agents
        return answer

    def _of_both(self, value: Any) -> dict[str, Any]:
        return dict.fromkeys(self.possible_agents, value)
