"""CAGE-2 envs that show records of what Blue is shown: see `agent.blue`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage2.agent.records import records
from workflow_rl.cage2.compiled.batched_simulator import CompiledEnvs
from workflow_rl.cage2.compiled.cyborg_words import red_action_of
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.environments.env_batch import EpisodeError, StepAnswers, is_the_envs
from workflow_rl.environments.episode import EpisodeSpec


class RecordEnvs:
    """The envs of `environment`, in compiled code or in CybORG. An EnvBatch.

    A record tells of the last step. The first record of an episode tells nothing. Where one env
    plays, EpisodeError names the episode in which an exception was raised.
    """

    def __init__(self, environment: Cage2, n_envs: int) -> None:
        self.n_envs = n_envs
        self._network = environment.network
        self._envs = environment.envs_on_bits(n_envs)
        self._specs: dict[int, EpisodeSpec] = {}
        self.close = self._envs.close

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[Any]:
        """Begin an episode in each of M envs. Return records [M]."""
        self._specs.update(zip(envs, specs, strict=True))
        with self._named(envs):
            return records(self._network, self._envs.reset(envs, specs))

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once. actions: indices [M] of the network's actions."""
        with self._named(envs):
            answers = self._envs.step(envs, actions)
        if isinstance(self._envs, CompiledEnvs):
            batch = self._envs.batch
            caught = batch.caught[envs]
            reds = [red_action_of(batch.states[env], batch.tables) for env in envs]
        else:
            simulators = [self._envs.envs[env].unwrapped._simulator for env in envs]  # type: ignore[attr-defined]
            caught = np.array([simulator.facts[-1] for simulator in simulators])
            reds = [simulator.texts[1] for simulator in simulators]
        return answers._replace(obs=records(self._network, answers.obs, caught, reds))

    @contextmanager
    def _named(self, envs: Sequence[int]) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # SystemExit too.
            if len(envs) > 1 or isinstance(error, EpisodeError) or not is_the_envs(error):
                raise
            raise EpisodeError(self._specs[envs[0]]) from error
