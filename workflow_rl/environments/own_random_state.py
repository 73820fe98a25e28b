"""Environments that draw from the random state of the whole process, each with a state of its own.

Such an environment calls Python's `random` or NumPy's `np.random` where it should draw from its own
`np_random`. Its episodes then depend on whatever else the process plays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from workflow_rl.environments.env_batch import Env
from workflow_rl.environments.simulator_process import RandomState


class PrivateRandom(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gives an env a RandomState of its own, which the seed of each episode determines.

    make_env: makes the env. Whatever it draws is the same for every env.
    """

    def __init__(self, make_env: Callable[[], Env]) -> None:
        self._random = RandomState()
        super().__init__(make_env())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._random.enter()
        if seed is not None:
            self._random.seed(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self._random.enter()
        return self.env.step(action)
