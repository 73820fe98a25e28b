"""Several envs that step together: what collection is written against."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.policies.distributions import Actions
from workflow_rl.environments.episode import EpisodeSpec

if TYPE_CHECKING:  # It takes 0.1 s to import.
    import gymnasium

Env: TypeAlias = "gymnasium.Env[Any, Any]"
EnvFactory: TypeAlias = "Callable[[], Env]"
Obs: TypeAlias = NDArray[Any]


class Transitions(NamedTuple):
    """What M envs answer to a step: obs [M, D], reward float64 [M], terminated and truncated,
    bool [M]."""

    obs: Obs
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class EpisodeError(RuntimeError):
    """An env raised an exception, its cause, in the episode `spec`."""

    def __init__(self, spec: EpisodeSpec) -> None:
        self.spec = spec
        super().__init__(f"in episode {spec.number}")


class ObservationError(ValueError):
    """An env showed what its observation space does not hold: the run ends."""


class EnvBatch(Protocol):
    """`n_envs` envs, numbered from 0. Those that a call does not name rest.

    Calls raise EpisodeError where it is known which env has raised.
    """

    n_envs: int

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Returns obs [M, D]."""

    def step(self, envs: Sequence[int], actions: Actions) -> Transitions:
        """Step each of M envs once."""

    def close(self) -> None:
        """Free what they hold."""


EnvBatchFactory: TypeAlias = Callable[[int], EnvBatch]
"""Makes so many envs."""


class SerialEnvs:
    """Gymnasium envs of one process, stepped one after another. Calls raise EpisodeError.

    variant_option: of `reset`, which takes an episode's variant, if it has one.
    """

    def __init__(self, make_env: EnvFactory, n_envs: int, variant_option: str = "variant") -> None:
        self.n_envs = n_envs
        self._variant_option = variant_option
        self._envs = [make_env() for _ in range(n_envs)]
        self._specs: dict[int, EpisodeSpec] = {}

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Returns obs [M, D]."""
        self._specs.update(zip(envs, specs, strict=True))
        return np.array([self._reset(env) for env in envs])

    def _reset(self, env: int) -> Obs:
        spec = self._specs[env]
        try:
            obs: Obs = self._envs[env].reset(seed=spec.env_seed, options=self._options(spec))[0]
        except Exception as error:
            raise EpisodeError(spec) from error
        return obs

    def _options(self, spec: EpisodeSpec) -> dict[str, Any] | None:
        return {self._variant_option: spec.variant} if spec.variant else None

    def step(self, envs: Sequence[int], actions: Actions) -> Transitions:
        """Step each of M envs once."""
        # Plain integers where they are single ones: what every env takes.
        chosen = actions.tolist() if actions.ndim == 1 else actions
        answers = [self._step(env, action) for env, action in zip(envs, chosen, strict=True)]
        obs, reward, terminated, truncated, _ = zip(*answers, strict=True)
        return Transitions(
            np.array(obs), np.array(reward, np.float64), np.array(terminated), np.array(truncated)
        )

    def _step(self, env: int, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        try:
            return self._envs[env].step(action)
        except Exception as error:
            raise EpisodeError(self._specs[env]) from error

    def close(self) -> None:
        """Close each env."""
        for env in self._envs:
            env.close()


class DelayedEnvs:
    """Envs whose every step takes so many seconds longer: simulated slow ones."""

    def __init__(self, envs: EnvBatch, delay: float) -> None:
        self.n_envs = envs.n_envs
        self.reset = envs.reset
        self.close = envs.close
        self._envs = envs
        self._delay = delay

    def step(self, envs: Sequence[int], actions: Actions) -> Transitions:
        """Wait for all of them at once, then step each of M envs."""
        time.sleep(self._delay)
        return self._envs.step(envs, actions)
