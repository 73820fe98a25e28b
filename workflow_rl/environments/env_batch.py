"""Several envs that step together: the interface of envs for collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.life import alive

if TYPE_CHECKING:  # The import of Gymnasium takes 0.1 s.
    import gymnasium

    from workflow_rl.agents.team import TeamLayout

Env: TypeAlias = "gymnasium.Env[Any, Any]"
EnvFactory: TypeAlias = "Callable[[], Env]"
Obs: TypeAlias = NDArray[Any]


class StepAnswers(NamedTuple):
    """The answers of M envs to a step: obs [M, D], reward float64 [M], terminated and truncated
    bool [M]. costs: float64 [M, C], whose names are `Spaces.costs`; None without costs."""

    obs: Obs
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    costs: NDArray[np.float64] | None = None

    @property
    def columns(self) -> list[NDArray[Any]]:
        """All arrays [M, ...] that are not None."""
        return [column for column in self if column is not None]

    def at(self, rows: Sequence[int]) -> StepAnswers:
        """Return the answers of these rows, in the order of `rows`."""
        return StepAnswers(*[column[rows] for column in self.columns])


def joined(answers: Sequence[StepAnswers]) -> StepAnswers:
    """Return several groups' answers as one group."""
    columns = zip(*(answer.columns for answer in answers), strict=True)
    return StepAnswers(*map(np.concatenate, columns))


class EpisodeError(RuntimeError):
    """An env raised an exception in the episode `spec`. The exception is the `__cause__`."""

    def __init__(self, spec: EpisodeSpec) -> None:
        self.spec = spec
        super().__init__(f"in episode {spec.number}")


def is_the_envs(error: BaseException) -> bool:
    """Return whether the env raised an exception that came from a call of the env. In a main
    process, KeyboardInterrupt comes from the user instead."""
    return not isinstance(error, KeyboardInterrupt) or parent_process() is not None


class EnvBatch(Protocol):
    """`n_envs` envs, numbered from 0. A call does not change the envs that it does not name.

    Calls raise EpisodeError if an env raised an exception and it is known which env.
    """

    n_envs: int

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Return obs [M, D]."""

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once. actions: [M] or [M, A], as policies sample actions."""

    def close(self) -> None:
        """Free what the envs hold."""


EnvBatchFactory: TypeAlias = Callable[[int], EnvBatch]
"""Makes a batch of the given number of envs."""


class SerialEnvs:
    """Gymnasium envs in one process, stepped one after another. An EnvBatch.

    variant_option: the option of `reset` that takes the variant of an episode. has_costs: whether
    `info["costs"]` of each step is a list of the step's costs: see `FlatEnv`.
    """

    def __init__(
        self,
        make_env: EnvFactory,
        n_envs: int,
        variant_option: str = "variant",
        has_costs: bool = False,
    ) -> None:
        self.n_envs = n_envs
        self._has_costs = has_costs
        self._variant_option = variant_option
        self.envs: list[Env] = []
        for _ in range(n_envs):
            alive()
            self.envs.append(make_env())
        self._specs: dict[int, EpisodeSpec] = {}

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        self._specs.update(zip(envs, specs, strict=True))
        return np.array([self._reset(env) for env in envs])

    def options_of(self, spec: EpisodeSpec) -> dict[str, Any] | None:
        options: dict[str, Any] = {self._variant_option: spec.variant} if spec.variant else {}
        if spec.progress is not None:
            options["progress"] = spec.progress
        return options or None

    def _reset(self, env: int) -> Obs:
        spec = self._specs[env]
        options = {"seed": spec.env_seed, "options": self.options_of(spec)}
        # A copy, because the envs of a process may write their answers into one array.
        return np.array(self._answer(env, self.envs[env].reset, **options)[0])

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        # Every env takes Python's integers, but some envs do not take NumPy's.
        chosen = actions.tolist() if actions.ndim == 1 else actions
        answers = [self._step(env, action) for env, action in zip(envs, chosen, strict=True)]
        obs, reward, terminated, truncated, infos = zip(*answers, strict=True)
        return StepAnswers(
            np.array(obs),
            np.array(reward, np.float64),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            np.array([info["costs"] for info in infos]) if self._has_costs else None,
        )

    def _step(self, env: int, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, *others = self._answer(env, self.envs[env].step, action)
        return np.array(obs), *others

    def _answer(self, env: int, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        alive()
        try:
            return call(*args, **options)
        except BaseException as error:  # An env may also raise SystemExit.
            if not is_the_envs(error):
                raise
            raise EpisodeError(self._specs[env]) from error

    def close(self) -> None:
        for env in self.envs:
            env.close()


class DelayedEnvs:
    """Envs whose steps take `delay` seconds longer, to simulate slow envs. An EnvBatch."""

    def __init__(self, envs: EnvBatch, delay: float) -> None:
        self.n_envs = envs.n_envs
        self.reset = envs.reset
        self.close = envs.close
        self._envs = envs
        self._delay = delay

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        time.sleep(self._delay)
        return self._envs.step(envs, actions)


class RewardedEnvs:
    """An EnvBatch whose reward is a weighted sum of a step's costs and of the envs' reward.

    own_weight: the weight of the envs' reward. of_costs: the weights of costs, by column. team: the
    envs' team. Its agents may have own rewards, whose sum is the reward.
    """

    def __init__(
        self,
        make_envs: EnvBatchFactory,
        own_weight: float,
        of_costs: Mapping[int, float],
        team: TeamLayout | None,
        n_envs: int,
    ) -> None:
        self._envs, self.n_envs = make_envs(n_envs), n_envs
        self.reset = self._envs.reset
        self.close = self._envs.close
        self._own_weight, self._of_costs, self._team = own_weight, of_costs, team

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        answers = self._envs.step(envs, actions)
        charged, obs, team = np.zeros(len(envs)), answers.obs, self._team
        # A matrix product could round differently for another number of envs.
        for column, weight in self._of_costs.items():
            assert answers.costs is not None
            charged += weight * answers.costs[:, column]
        if team is not None and team.own_rewards:
            obs = obs.copy()
            paid = team.rewards(obs)
            paid[:] = self._own_weight * paid + charged[:, None] / team.n_agents
        return answers._replace(obs=obs, reward=self._own_weight * answers.reward + charged)
