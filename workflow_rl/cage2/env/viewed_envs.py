"""The EnvBatch of Blue's agents, with their observations and their action sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage2.agent.network_facts import Indices, NetworkFacts
from workflow_rl.cage2.agent.records import records
from workflow_rl.cage2.agent.views import ActionSet, Bits, Sees, View, plain
from workflow_rl.cage2.costs import evaluated_costs
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.environments.env_batch import (
    EnvBatch,
    EpisodeError,
    SerialEnvs,
    StepAnswers,
    is_the_envs,
)
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
    from workflow_rl.cage2.env.environment import Cage2

SLEEP_CHOICE = 0
"""The index of Sleep in every action set. Sleep replaces a teacher's action that the set lacks."""


class TrueStateView:
    """Shows the whole network: see `views.Sees` and `compiled.true_state`. Raises ConfigError if
    the envs are not compiled."""

    def __init__(self, envs: EnvBatch) -> None:
        batch = getattr(envs, "batch", None)
        if batch is None:
            raise ConfigError("observation", "only the simulator compiled shows true-state")
        self._states: NDArray[Any] = batch.states

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        from workflow_rl.cage2.compiled.true_state import N_SHOWN, SCENARIO2, show_states

        shown = np.empty((len(obs), N_SHOWN), np.uint8)
        show_states(self._states, SCENARIO2.record, np.array(envs), plain(obs), shown)
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        return self.begin(envs, obs)


class RecordView:
    """Shows records of Blue's observations: see `agent.blue` and `views.Sees`.

    A record describes the last step, so the first record of an episode has only the bits. envs: the
    envs of the network, in compiled code or in CybORG."""

    def __init__(self, envs: EnvBatch, network: Scenario) -> None:
        self._envs = envs
        self._network = network

    def begin(self, envs: Sequence[int], obs: Bits) -> NDArray[Any]:
        return records(self._network, obs)

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> NDArray[Any]:
        if isinstance(self._envs, SerialEnvs):
            simulators = [self._envs.envs[env].unwrapped._simulator for env in envs]  # type: ignore[attr-defined]
            caught = np.array([simulator.facts[-1] for simulator in simulators])
            reds = [simulator.texts[1] for simulator in simulators]
        else:
            from workflow_rl.cage2.compiled.cyborg_words import red_action_of

            batch: BatchedSimulator = self._envs.batch  # type: ignore[attr-defined]
            caught = batch.caught[envs]
            reds = [red_action_of(batch.states[env], batch.tables) for env in envs]
        return records(self._network, obs, caught, reds)


class ViewedEnvs:
    """An EnvBatch of CAGE-2 with the observations and choices of a blue agent.

    An observation ends with a mask if the choices have masks, and then with the teacher's choice if
    there is a teacher.

    Args:
        envs: the envs, which show the bits of the hosts and take the network's actions by index.
        view: makes the agent's observations.
        choices: the agent's action set. If this is None, the agent chooses from all of the
            network's actions, and there is no opening and no teacher.
        opening: indices of the actions that begin every episode. The agent chooses after them. Its
            first reward and costs include the rewards and costs of the opening.
        teacher: an actor on records of compiled envs, see `agent.blue`.
        names_episodes: whether to raise EpisodeError, which names the episode, for any exception in
            a call with a single env.
    """

    def __init__(
        self,
        envs: EnvBatch,
        view: Sees,
        choices: ActionSet | None = None,
        opening: Sequence[int] = (),
        teacher: Actor | None = None,
        names_episodes: bool = False,
    ) -> None:
        self.n_envs = envs.n_envs
        self.close = envs.close
        self._envs = envs
        self._view = view
        self._choices = choices
        self._opening = opening
        self._opening_rewards = np.zeros(envs.n_envs)
        # The costs of each env's opening, until the env's first step after the opening.
        self._opening_costs: dict[int, NDArray[np.float64]] = {}
        self._teacher = teacher
        # For each env: the index of the action that the teacher would choose next.
        self._advice = np.zeros(envs.n_envs, np.int64)
        self._names_episodes = names_episodes
        self._specs: dict[int, EpisodeSpec] = {}

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[Any]:
        """Begin an episode in each of M envs. Return the observations, [M] or [M, D]."""
        self._specs.update(zip(envs, specs, strict=True))
        with self._episode_named(envs):
            obs = self._envs.reset(envs, specs)
        seen = self._view.begin(envs, obs)
        if self._choices is None:
            return seen
        self._choices.begin(envs)
        if self._teacher is not None:
            for env, spec in zip(envs, specs, strict=True):
                self._teacher.reset(spec.action_seed, env)
            self._ask(envs)
        self._opening_rewards[envs] = 0
        costs: NDArray[np.float64] | None = None
        for action in self._opening:
            answers = self._step(envs, np.full(len(envs), action))
            self._opening_rewards[envs] += answers.reward
            if answers.costs is not None:
                costs = answers.costs if costs is None else costs + answers.costs
            seen = answers.obs
        if costs is not None:
            self._opening_costs.update(zip(envs, costs, strict=True))
        return self._rows(self._choices, envs, seen)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once. actions: indices [M] into the choices."""
        if self._choices is None:
            return self._step(envs, actions)
        answers = self._step(envs, self._choices.chosen(envs, actions))
        reward = answers.reward + self._opening_rewards[envs]
        self._opening_rewards[envs] = 0
        if answers.costs is not None and self._opening_costs:
            for row, env in enumerate(envs):
                answers.costs[row] += self._opening_costs.pop(env, 0.0)
        rows = self._rows(self._choices, envs, answers.obs)
        return answers._replace(obs=rows, reward=reward)

    def _step(self, envs: Sequence[int], actions: Indices) -> StepAnswers:
        with self._episode_named(envs):
            answers = self._envs.step(envs, actions)
        if self._choices is not None:
            self._choices.after(envs, actions)
        if self._teacher is not None:
            self._ask(envs)
        return answers._replace(obs=self._view.after(envs, actions, answers.obs))

    @contextmanager
    def _episode_named(self, envs: Sequence[int]) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # A user's red agent may also raise SystemExit.
            is_known = self._names_episodes and len(envs) == 1
            if not is_known or isinstance(error, EpisodeError) or not is_the_envs(error):
                raise
            raise EpisodeError(self._specs[envs[0]]) from error

    def _rows(self, choices: ActionSet, envs: Sequence[int], seen: Bits) -> Bits:
        rows = choices.with_masks(seen, envs)
        if self._teacher is None:
            return rows
        advice = self._choices_of_teacher(choices, envs)
        return np.concatenate([rows, advice[:, None]], axis=1)

    def _ask(self, envs: Sequence[int]) -> None:
        assert self._teacher is not None
        batch: BatchedSimulator = self._envs.batch  # type: ignore[attr-defined]
        shown = records(batch.tables.scenario, batch.obs[envs], batch.caught[envs])
        self._advice[envs], _ = self._teacher.act(shown, envs)

    def _choices_of_teacher(self, choices: ActionSet, envs: Sequence[int]) -> Bits:
        """Return, for each env, the first choice that leads to the teacher's action, `[M]`. If no
        choice does, it is SLEEP_CHOICE."""
        n = choices.n
        m = len(envs)
        each_choice = np.tile(np.arange(n), m)
        actions = choices.chosen(np.repeat(envs, n).tolist(), each_choice).reshape(m, n)
        fits = actions == self._advice[envs][:, None]
        if choices.has_masks:
            fits &= choices.with_masks(np.zeros((m, 0), np.uint8), envs).astype(bool)
        return np.where(fits.any(axis=1), fits.argmax(axis=1), SLEEP_CHOICE).astype(np.uint8)


def viewed_envs(
    envs: EnvBatch,
    observation: str,
    actions: str,
    opening: Sequence[str],
    facts: NetworkFacts,
    teacher: Actor | None = None,
) -> ViewedEnvs:
    """Return envs with the observations and choices of a policy: see `Cage2.view`.

    facts: what Blue knows of the networks. teacher: see `ViewedEnvs`."""
    playing = getattr(envs, "playing", None)
    if observation == "true-state":
        view: Sees = TrueStateView(envs)
    else:
        view = View(observation, facts, playing)
    opening_indices = [facts.named.index(name) for name in opening]
    return ViewedEnvs(envs, view, ActionSet(actions, facts, playing), opening_indices, teacher)


def record_envs(environment: Cage2, n_envs: int) -> ViewedEnvs:
    """Return envs of `environment` that show records, in compiled code or in CybORG. If the
    environment has measures, the envs have `evaluated_costs`."""
    costs = evaluated_costs([environment.network]) if environment.measures else ()
    envs = environment.envs_on_bits(n_envs, costs)
    return ViewedEnvs(envs, RecordView(envs, environment.network), names_episodes=True)


def taught_envs(environment: Cage2, teacher: Actor, n_envs: int) -> ViewedEnvs:
    """Return the compiled envs of `environment` with a teacher: see `Guest.teaching`."""
    envs = environment.envs_on_bits(n_envs, environment.costs)
    return viewed_envs(envs, *environment.view, environment.facts, teacher)


def family_envs(
    facts: NetworkFacts,
    view: tuple[str, str, Sequence[str]],
    max_steps: int,
    costs: Sequence[str],
    n_envs: int,
) -> ViewedEnvs:
    """Return envs that play the networks of `facts`. view: see `Cage2.view`. costs: the names of a
    step's costs. Raises ScenarioError."""
    from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator, CompiledEnvs
    from workflow_rl.cage2.compiled.description import family_of

    batch = BatchedSimulator(n_envs, max_steps, tables=family_of(facts.scenarios))
    envs = CompiledEnvs(batch, max_steps, len(costs))
    return viewed_envs(envs, *view, facts)
