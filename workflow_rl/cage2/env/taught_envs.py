"""CAGE-2 envs whose rows end with what a teacher does next: see `Guest.teaching`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage2.agent.action_sets import Indices
from workflow_rl.cage2.agent.blue import records
from workflow_rl.cage2.agent.views import Bits
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.simulator import CompiledEnvs
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.viewed_envs import ViewedEnvs
from workflow_rl.environments.env_batch import StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

SLEEP_CHOICE = 0
"""The choice to sleep in every action set, for actions that the set lacks."""


class AskingEnvs(CompiledEnvs):
    """Envs that ask a teacher after every reset and step.

    teacher: acts on records, see `agent.blue`. advice: what it would do next, indices
    [n_envs] into Blue's actions.
    """

    def __init__(self, environment: Cage2, n_envs: int, teacher: Actor) -> None:
        self._network = network = environment.network
        super().__init__(environment.max_steps, n_envs, environment.batches(), tables_of(network))
        self._teacher = teacher
        self.advice = np.zeros(n_envs, np.int64)

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[np.uint8]:
        obs = super().reset(envs, specs)
        for env, spec in zip(envs, specs, strict=True):
            self._teacher.reset(spec.action_seed, env)
        self._ask(envs, obs)
        return obs

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        transitions = super().step(envs, actions)
        self._ask(envs, transitions.obs)
        return transitions

    def _ask(self, envs: Sequence[int], obs: Bits) -> None:
        shown = records(self._network, obs, self.caught[envs])
        self.advice[envs], _ = self._teacher.act(shown, envs)


class TaughtEnvs(ViewedEnvs):
    """The envs of `environment` on the compiled simulator, with the teacher's choice at the end of
    each row."""

    def __init__(self, environment: Cage2, teacher: Actor, n_envs: int) -> None:
        self._asking = AskingEnvs(environment, n_envs, teacher)
        n_actions = len(environment.network.action_names)
        super().__init__(
            self._asking, *environment.view, n_actions=n_actions, known=environment.known
        )

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Bits:
        return self._with_advice(super().reset(envs, specs), envs)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        transitions = super().step(envs, actions)
        return transitions._replace(obs=self._with_advice(transitions.obs, envs))

    def _with_advice(self, rows: Bits, envs: Sequence[int]) -> Bits:
        choices = self._choices(envs, self._asking.advice[envs])
        return np.concatenate([rows, choices[:, None].astype(np.uint8)], axis=1)

    def _choices(self, envs: Sequence[int], actions: Indices) -> Indices:
        """Return the first choice of each env that stands for its action [M], or SLEEP_CHOICE."""
        n, m = self._actions.n, len(envs)
        choices = np.tile(np.arange(n), m)
        options = self._actions.chosen(np.repeat(envs, n).tolist(), choices).reshape(m, n)
        fits = options == actions[:, None]
        masks = self._actions.with_masks(np.zeros((m, 0), np.uint8), envs)
        fits &= masks.astype(bool) if masks.shape[1] else True
        return np.where(fits.any(axis=1), fits.argmax(axis=1), SLEEP_CHOICE)
