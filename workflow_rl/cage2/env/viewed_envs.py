"""CAGE-2 envs as Blue's policy sees them while it learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage2.agent.network_facts import Indices, NetworkFacts
from workflow_rl.cage2.agent.views import ActionSet, Bits, Sees, View, plain
from workflow_rl.environments.env_batch import EnvBatch, StepAnswers
from workflow_rl.environments.environment import InvalidEnvironmentError
from workflow_rl.environments.episode import EpisodeSpec

if TYPE_CHECKING:
    from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
    from workflow_rl.cage2.env.environment import Cage2

SLEEP_CHOICE = 0
"""The choice to sleep in every action set, for actions of a teacher that the set lacks."""


class TrueStateView:
    """Shows the whole network: see `views.Sees` and `compiled.true_state`. envs: of the compiled
    simulator."""

    def __init__(self, envs: EnvBatch) -> None:
        batch = getattr(envs, "batch", None)
        if batch is None:
            raise InvalidEnvironmentError(
                "observation", "true-state is shown by the simulator compiled alone"
            )
        self._states: NDArray[Any] = batch.states

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        from workflow_rl.cage2.compiled.true_state import N_SHOWN, SCENARIO2, show_states

        shown = np.empty((len(obs), N_SHOWN), np.uint8)
        show_states(self._states, SCENARIO2.record, np.array(envs), plain(obs), shown)
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        return self.begin(envs, obs)


class ViewedEnvs:
    """CAGE-2 envs with the observations and actions of Blue's policy. An EnvBatch.

    Observations end with the mask of the actions, if the actions have masks, and then with what a
    teacher would choose now, if there is one.

    opening: actions that begin every episode. The policy chooses after them. facts: what Blue knows
    of the networks. teacher: acts on records of compiled envs, see `agent.blue`.
    """

    def __init__(
        self,
        envs: EnvBatch,
        observation: str,
        actions: str,
        opening: Sequence[str],
        facts: NetworkFacts,
        teacher: Actor | None = None,
    ) -> None:
        self.n_envs = envs.n_envs
        self.close = envs.close
        self._envs = envs
        playing = getattr(envs, "playing", None)
        self.view: Sees = (
            TrueStateView(envs)
            if observation == "true-state"
            else View(observation, facts, playing)
        )
        self._actions = ActionSet(actions, facts, playing)
        self._opening = [facts.named.index(name) for name in opening]
        self._opening_rewards = np.zeros(envs.n_envs)
        self._teacher = teacher
        # What the teacher would do next, by env: indices of Blue's actions.
        self._advice = np.zeros(envs.n_envs, np.int64)

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Bits:
        """Begin an episode in each of M envs. Return what Blue sees, uint8 [M, D]."""
        seen = self.view.begin(envs, self._envs.reset(envs, specs))
        self._actions.begin(envs)
        if self._teacher is not None:
            for env, spec in zip(envs, specs, strict=True):
                self._teacher.reset(spec.action_seed, env)
            self._ask(envs)
        self._opening_rewards[envs] = 0
        for action in self._opening:
            transitions = self._step(envs, np.full(len(envs), action))
            self._opening_rewards[envs] += transitions.reward
            seen = transitions.obs
        return self._rows(envs, seen)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once. actions: indices [M] into the action set.

        The first reward of an episode includes the rewards of the opening.
        """
        transitions = self._step(envs, self._actions.chosen(envs, actions))
        reward = transitions.reward + self._opening_rewards[envs]
        self._opening_rewards[envs] = 0
        return transitions._replace(obs=self._rows(envs, transitions.obs), reward=reward)

    def _step(self, envs: Sequence[int], actions: Indices) -> StepAnswers:
        transitions = self._envs.step(envs, actions)
        self._actions.after(envs, actions)
        if self._teacher is not None:
            self._ask(envs)
        return transitions._replace(obs=self.view.after(envs, actions, transitions.obs))

    def _rows(self, envs: Sequence[int], seen: Bits) -> Bits:
        rows = self._actions.with_masks(seen, envs)
        if self._teacher is None:
            return rows
        return np.concatenate([rows, self._choices_of_teacher(envs)[:, None]], axis=1)

    def _ask(self, envs: Sequence[int]) -> None:
        from workflow_rl.cage2.agent.records import records

        assert self._teacher is not None
        batch: BatchedSimulator = self._envs.batch  # type: ignore[attr-defined]
        shown = records(batch.tables.scenario, batch.obs[envs], batch.caught[envs])
        self._advice[envs], _ = self._teacher.act(shown, envs)

    def _choices_of_teacher(self, envs: Sequence[int]) -> Bits:
        """Return the first choice of each env that stands for what the teacher would do, or
        SLEEP_CHOICE, `[M]`."""
        n, m = self._actions.n, len(envs)
        choices = np.tile(np.arange(n), m)
        options = self._actions.chosen(np.repeat(envs, n).tolist(), choices).reshape(m, n)
        fits = options == self._advice[envs][:, None]
        masks = self._actions.with_masks(np.zeros((m, 0), np.uint8), envs)
        fits &= masks.astype(bool) if masks.shape[1] else True
        return np.where(fits.any(axis=1), fits.argmax(axis=1), SLEEP_CHOICE).astype(np.uint8)


def taught_envs(environment: Cage2, teacher: Actor, n_envs: int) -> ViewedEnvs:
    """Return the envs of `environment` on the compiled simulator, with a teacher: see
    `Guest.teaching`."""
    envs = environment.envs_on_bits(n_envs)
    return ViewedEnvs(envs, *environment.view, environment.facts, teacher)


def family_envs(
    facts: NetworkFacts, view: tuple[str, str, Sequence[str]], max_steps: int, n_envs: int
) -> ViewedEnvs:
    """Return envs that play the networks of facts. view: see `Cage2.view`. Raises ScenarioError."""
    from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator, CompiledEnvs
    from workflow_rl.cage2.compiled.description import family_of

    batch = BatchedSimulator(n_envs, max_steps, tables=family_of(facts.scenarios))
    envs = CompiledEnvs(batch, max_steps)
    return ViewedEnvs(envs, *view, facts)
