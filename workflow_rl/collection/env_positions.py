"""Envs that go on from one unroll to the next: which episodes they play, and where they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from agents.policies.distributions import Actions
from agents.trajectory import Trajectory
from workflow_rl.collection.player import Player
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.environments.episode import EpisodeSpec, episode_spec


class EnvPosition(NamedTuple):
    """One of a run's envs: the episode it is in, with the actions taken [T, ...], or begins next.

    Its next episode is the one `stride` numbers on that is not `skipped`, so that which episodes an
    env plays follows from its own number alone.
    """

    run_seed: int
    variants: tuple[str, ...]
    stride: int
    episode: int
    actions: Actions | None = None
    skipped: tuple[int, ...] = ()

    @property
    def spec(self) -> EpisodeSpec:
        """Of its episode."""
        return episode_spec(self.run_seed, self.episode, self.variants)

    @property
    def next(self) -> EnvPosition:
        """Where its next episode begins."""
        numbers = itertools.count(self.episode + self.stride, self.stride)
        episode = next(number for number in numbers if number not in self.skipped)
        return self._replace(episode=episode, actions=None)

    def after(self, trajectory: Trajectory) -> EnvPosition:
        """The slot once it has played this trajectory."""
        assert trajectory.episode == self.episode
        if trajectory.ended:
            return self.next
        if self.actions is None:
            return self._replace(actions=trajectory.action)
        return self._replace(actions=np.concatenate([self.actions, trajectory.action]))


def first_positions(
    run_seed: int, variants: Sequence[str], n_envs: int, first_episode: int = 0
) -> list[EnvPosition]:
    """`n_envs` slots that begin at `first_episode` and share all later episodes among them."""
    return [
        EnvPosition(run_seed, tuple(variants), n_envs, first_episode + env) for env in range(n_envs)
    ]


def advance(slots: list[EnvPosition], trajectories: Iterable[Trajectory]) -> None:
    """Move the slots on. An env's trajectories have to come in order."""
    env_of = {slot.episode: env for env, slot in enumerate(slots)}
    for trajectory in trajectories:
        env = env_of.pop(trajectory.episode)
        slots[env] = slots[env].after(trajectory)
        env_of[slots[env].episode] = env


def skip(slots: list[EnvPosition], episode: int) -> None:
    """Have the env whose episode it is leave it out, even if it is in the middle of it."""
    for env, slot in enumerate(slots):
        if (episode - slot.episode) % slot.stride == 0:
            slot = slot._replace(skipped=(*slot.skipped, episode))
            slots[env] = slot.next if slot.episode == episode else slot


def player_at(envs: EnvBatch, slots: Sequence[EnvPosition]) -> Player:
    """A player of these envs, each where its slot says."""
    player, steps = brought_back(envs, slots)
    for _ in steps:
        pass
    return player


def brought_back(envs: EnvBatch, slots: Sequence[EnvPosition]) -> tuple[Player, Iterator[None]]:
    """A player of these envs, and the steps that are still to be taken, by whoever iterates over
    them, until each is where its slot says."""
    # By env: the episode that it begins next.
    ahead = [slot if slot.actions is None else slot.next for slot in slots]

    def next_spec(env: int) -> EpisodeSpec | None:
        if env >= len(slots):
            return None
        spec = ahead[env].spec
        ahead[env] = ahead[env].next
        return spec

    player = Player(envs, next_spec)
    actions = {env: slot.actions for env, slot in enumerate(slots) if slot.actions is not None}
    if not actions:
        return player, iter(())
    return player, player.restore({env: slots[env].spec for env in actions}, actions)
