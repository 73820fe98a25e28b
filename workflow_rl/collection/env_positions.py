"""Where each env of a run stands in its episodes, from one unroll to the next."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.environments.episode import EpisodeSpec, episode_spec


class EnvPosition(NamedTuple):
    """The position of one env: its episode, and the actions taken in it.

    actions: [T] or [T, K]; None if the episode has not begun. stride: from each episode's number to
    the next, so that the env's episodes follow from its own number alone. skipped: numbers of
    episodes that are left out. total: of `episode_spec`. begun_with: the total with which the
    episode began, if a resumed run has another one.
    """

    run_seed: int
    variants: tuple[str, ...]
    stride: int
    episode: int
    actions: Actions | None = None
    skipped: tuple[int, ...] = ()
    total: int | None = None
    begun_with: int | None = None

    @property
    def spec(self) -> EpisodeSpec:
        total = self.begun_with or self.total
        return episode_spec(self.run_seed, self.episode, self.variants, total=total)

    @property
    def next(self) -> EnvPosition:
        """The position at the beginning of the next episode."""
        numbers = itertools.count(self.episode + self.stride, self.stride)
        episode = next(number for number in numbers if number not in self.skipped)
        return self._replace(episode=episode, actions=None, begun_with=None)

    def after(self, trajectory: Trajectory) -> EnvPosition:
        """Return the position once the env has played this trajectory."""
        assert trajectory.episode == self.episode
        if trajectory.ended:
            return self.next
        if trajectory.steps_before == 0:  # Also if a restored env has begun its episode again.
            return self._replace(actions=trajectory.action)
        assert self.actions is not None
        return self._replace(actions=np.concatenate([self.actions, trajectory.action]))


def first_positions(
    run_seed: int,
    variants: Sequence[str],
    n_envs: int,
    first_episode: int = 0,
    total: int | None = None,
) -> list[EnvPosition]:
    """Return the positions of `n_envs` envs that share the episodes from `first_episode` on."""
    first = EnvPosition(run_seed, tuple(variants), n_envs, first_episode, total=total)
    return [first._replace(episode=first_episode + env) for env in range(n_envs)]


def advance_positions(positions: list[EnvPosition], trajectories: Iterable[Trajectory]) -> None:
    """Move the positions past these trajectories. Those of one env must come in order."""
    env_of = {position.episode: env for env, position in enumerate(positions)}
    for trajectory in trajectories:
        env = env_of.pop(trajectory.episode)
        positions[env] = positions[env].after(trajectory)
        env_of[positions[env].episode] = env


def skip(positions: list[EnvPosition], episode: int) -> None:
    """Make the env that plays an episode leave it out, even in the middle of it."""
    for env, position in enumerate(positions):
        if (episode - position.episode) % position.stride == 0:
            position = position._replace(skipped=(*position.skipped, episode))
            positions[env] = position.next if position.episode == episode else position
