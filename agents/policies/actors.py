"""Actors that mix several actors, take advised actions, or remember a policy's outputs. Imports no
torch."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory

_DRAWS = 2**32 - 6
"""A part of seeds that separates these draws from the actors' own random numbers."""


class Lineup:
    """The player in each env. The seed of an episode draws a player by weights."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._shares = np.array(weights) / sum(weights)
        self._playing: dict[int, int] = {}

    def begin(self, seed: int, env: int) -> int:
        draw = np.random.default_rng([seed, _DRAWS])
        self._playing[env] = int(draw.choice(len(self._shares), p=self._shares))
        return self._playing[env]

    def parts(self, envs: Sequence[int]) -> Iterator[tuple[int, NDArray[np.int64], list[int]]]:
        """Yield each player's number, the indices of its envs in `envs`, and these envs."""
        playing = np.array([self._playing[env] for env in envs])
        for number in np.unique(playing).tolist():
            places = np.flatnonzero(playing == number)
            yield number, places, [envs[place] for place in places.tolist()]


class MixedActor:
    """An Actor that plays each episode with one of several actors: see `Lineup`."""

    policy_version = 0

    def __init__(self, actors: Sequence[Actor], weights: Sequence[float]) -> None:
        self._actors, self._draws = actors, Lineup(weights)

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        self._actors[self._draws.begin(seed, env)].reset(seed, env, n_acted)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        actions, log_probs = np.zeros(len(envs), np.int64), np.zeros(len(envs), np.float32)
        for number, places, of in self._draws.parts(envs):
            actions[places], log_probs[places] = self._actors[number].act(obs[places], of)
        return actions, log_probs


class Advised:
    """An Actor that takes the actions at the end of the rows: see `challenge.Guest.teaching`.

    spaces: the spaces of the rows without the actions.
    """

    policy_version = 0

    def __init__(self, spaces: Spaces) -> None:
        self._distribution, self._is_team = spaces.distribution, spaces.team is not None
        self._n = spaces.distribution.n_numbers

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode: see `numpy_policy.Actor`."""

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return the actions at the end of the rows [M, D], and log-probabilities of 0."""
        numbers = obs[:, -self._n :]
        if not self._distribution.takes_masks:
            numbers = numbers.astype(np.float32)
        log_prob = np.zeros(numbers.shape if self._is_team else len(obs), np.float32)
        return self._distribution.taken(numbers), log_prob

    def without(self, trajectory: Trajectory) -> Trajectory:
        return trajectory._replace(
            obs=trajectory.obs[:, : -self._n], last_obs=trajectory.last_obs[: -self._n]
        )


class WatchedPolicy:
    """An Actor that remembers its policy's last observation, [1, D], and the outputs for it."""

    def __init__(self, policy: NumpyPolicy) -> None:
        self.policy = policy
        self.policy_version = policy.policy_version
        self.reset = policy.reset
        self.obs: NDArray[Any] | None = None
        self.outputs: NDArray[Any] | None = None

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        self.obs = np.atleast_2d(obs)
        self.outputs = self.policy.outputs(self.obs, envs)
        return self.policy.act(obs, envs)


def watch_policy(actor: Any) -> tuple[Actor, WatchedPolicy]:
    """Return an actor whose policy is watched, and this policy.

    actor: a NumpyPolicy, or an object that acts with the actor in its attribute `actor`.
    """
    if isinstance(actor, NumpyPolicy):
        policy = WatchedPolicy(actor)
        return policy, policy
    actor.actor, policy = watch_policy(actor.actor)
    return actor, policy


def probabilities(outputs: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probabilities of the choices, given a policy's outputs [1, n]."""
    logits = outputs[0].astype(np.float64)
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
