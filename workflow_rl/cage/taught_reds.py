"""Envs of Red's side for learning from a teacher, an attacker whose next action ends each row."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.environments.env_batch import Obs, StepAnswers
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.episode import EpisodeSpec


class RedOnRows(Protocol):
    """An attacker that observes the rows of Red's envs."""

    def reset(self, seed: int, env: int = 0) -> None:
        """Begin an episode in an env."""

    def act(self, rows: NDArray[Any], envs: Sequence[int] = (0,)) -> tuple[NDArray[Any], Any]:
        """Return the actions of M envs, `[M]` or `[M, K]`, and a second value, which is unused."""


class TaughtReds:
    """An EnvBatch whose rows end with the teacher's next action: see `Guest.teaching`.

    environment: an environment of Red's side, whose rows are uint8. attacker: the teacher."""

    def __init__(self, environment: Environment, attacker: RedOnRows, n_envs: int) -> None:
        self._envs = environment.make_envs(n_envs)
        self._attacker = attacker
        self.n_envs = n_envs
        self.close = self._envs.close

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        rows = self._envs.reset(envs, specs)
        for env, spec in zip(envs, specs, strict=True):
            self._attacker.reset(spec.action_seed, env)
        return self._with_actions(rows, envs)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        answers = self._envs.step(envs, actions)
        return answers._replace(obs=self._with_actions(answers.obs, envs))

    def _with_actions(self, rows: Obs, envs: Sequence[int]) -> Obs:
        actions, _ = self._attacker.act(rows, envs)
        # An action's number may be greater than 255.
        return np.column_stack([rows.astype(np.int16), actions.astype(np.int16)])
