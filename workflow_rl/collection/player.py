"""The loop that plays episodes. An episode is a pure function of the actor and the spec."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.numpy_policy import Actor, burn_in_of
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.env_positions import EnvPosition
from workflow_rl.collection.recorder import EpisodeRecorder
from workflow_rl.environments.env_batch import EnvBatch, Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.life import alive

NextSpec: TypeAlias = Callable[[int], EpisodeSpec | None]
"""Return the next episode of an env, by the env's number; None if there is none."""


def play_episodes(
    envs: EnvBatch, actor: Actor, specs: Iterable[EpisodeSpec]
) -> Iterator[list[Trajectory]]:
    """Play every spec, as many episodes at once as there are envs.

    Yields the trajectories that end with the same step together. A trajectory does not depend on
    the env that plays it, nor on what the other envs play.
    """
    waiting = iter(specs)
    player = Player(envs, lambda env: next(waiting, None))
    while player.begin(actor):
        finished = player.step(actor)
        if finished:
            yield finished


def play_episode(envs: EnvBatch, actor: Actor, spec: EpisodeSpec) -> Trajectory:
    ((trajectory,),) = play_episodes(envs, actor, [spec])
    return trajectory


class Player:
    """N envs, each of which plays one episode after another."""

    def __init__(self, envs: EnvBatch, next_spec: NextSpec) -> None:
        self._envs = envs
        self._next_spec = next_spec
        self._recorder = EpisodeRecorder(envs.n_envs)

    def begin(self, actor: Actor) -> bool:
        """Begin the next episode of every idle env. Return whether any env plays then."""
        starting: dict[int, EpisodeSpec] = {}
        for env in self._recorder.idle:
            spec = self._next_spec(env)
            if spec is None:
                break
            starting[env] = spec
        if starting:
            first = self._envs.reset(list(starting), list(starting.values()))
            self._recorder.begin(starting, first)
            for env, spec in starting.items():
                actor.reset(spec.action_seed, env)
        return bool(self._recorder.playing)

    def step(self, actor: Actor) -> list[Trajectory]:
        """Step every env that plays. Return the trajectories of the episodes that end."""
        playing = self._recorder.playing
        alive()
        actions, log_probs = actor.act(self._recorder.obs, playing)
        transitions = self._envs.step(playing, actions)
        return self._recorder.record(actions, log_probs, transitions, actor.policy_version)

    def unroll(self, actor: Actor, n_steps: int) -> list[Trajectory]:
        """Step every env `n_steps` times from where it is, through the ends of episodes.

        Returns trajectories of one episode each, those of an env in order. A trajectory whose
        episode goes on has not `ended`.
        """
        burn_in = self._recorder.burn_in = burn_in_of(actor)
        for env, spec in self._recorder.specs.items():
            n_acted = self._recorder.steps_before[env]
            seen: Any = {"seen": self._recorder.seen_before(env)} if burn_in else {}
            actor.reset(spec.action_seed, env, n_acted=n_acted, **seen)
        trajectories: list[Trajectory] = []
        for _ in range(n_steps):
            self.begin(actor)
            trajectories += self.step(actor)
        return trajectories + self._recorder.cut(actor.policy_version)

    def restore(
        self, specs: Mapping[int, EpisodeSpec], actions: Mapping[int, Actions], burn_in: int = 0
    ) -> None:
        """Bring some envs to where their actions, at least one each, lead in their episodes.

        An episode that ends on the way does not follow from its seed: the env begins the episode
        again.

        specs, actions: by env. burn_in: of the actor that goes on.
        """
        if not specs:
            return
        obs: Obs = np.empty(0)
        returns = np.zeros(len(specs))
        costs: Any = None
        ended = np.zeros(len(specs), bool)
        seen = [deque[Obs](maxlen=burn_in + 1) for _ in specs]
        for rows, transitions in replay_episodes(self._envs.reset, self._envs.step, specs, actions):
            if not len(obs):
                obs = np.array(transitions.obs)
            obs[rows] = transitions.obs
            returns[rows] += transitions.reward
            if transitions.costs is not None:
                costs = (
                    np.zeros((len(specs), transitions.costs.shape[1])) if costs is None else costs
                )
                costs[rows] += transitions.costs
            ended[rows] = transitions.terminated | transitions.truncated
            for row in rows if burn_in else ():
                seen[row].append(obs[row].copy())
        for row, (env, spec) in enumerate(specs.items()):
            if ended[row]:
                self._recorder.begin({env: spec}, self._envs.reset([env], [spec]))
                continue
            self._recorder.begin(
                {env: spec},
                obs[row : row + 1],
                len(actions[env]),
                float(returns[row]),
                list(seen[row])[:-1],
                None if costs is None else costs[row],
            )


def player_at(envs: EnvBatch, positions: Sequence[EnvPosition], burn_in: int = 0) -> Player:
    """Return a player of these envs, each of them brought to its position.

    burn_in: of the actor that goes on.
    """
    # By env: the episode that it begins next.
    ahead = [position if position.actions is None else position.next for position in positions]

    def next_spec(env: int) -> EpisodeSpec | None:
        if env >= len(positions):
            return None
        spec = ahead[env].spec
        ahead[env] = ahead[env].next
        return spec

    player = Player(envs, next_spec)
    begun = {env: at.actions for env, at in enumerate(positions) if at.actions is not None}
    specs = {env: positions[env].spec for env in begun}
    player.restore(specs, begun, burn_in)
    return player


def replay_episodes(
    reset: Callable[[list[int], list[EpisodeSpec]], Obs],
    step: Callable[[list[int], Actions], StepAnswers],
    specs: Mapping[int, EpisodeSpec],
    actions: Mapping[int, Actions | list[Any]],
) -> Iterator[tuple[list[int], StepAnswers]]:
    """Play episodes again, side by side, as far as their actions go, or to their ends.

    reset, step: of an EnvBatch. specs, actions: by env, `M` in all.

    Yields the rows, 0 to M - 1, of the envs that have answered, and their answers: first all rows
    at the reset, then at each step the rows that still have actions.
    """
    numbers = list(specs)
    yield list(range(len(numbers))), at_reset(reset(numbers, list(specs.values())))
    plans = {row: actions[env] for row, env in enumerate(numbers)}
    for t in itertools.count():
        plans = {row: plan for row, plan in plans.items() if t < len(plan)}
        if not plans:
            return
        alive()
        rows = list(plans)
        transitions = step(
            [numbers[row] for row in rows], np.stack([plans[row][t] for row in rows])
        )
        yield rows, transitions
        for row, *ends in zip(rows, transitions.terminated, transitions.truncated, strict=True):
            if any(ends):
                del plans[row]


def at_reset(obs: Obs) -> StepAnswers:
    """Return the transitions of a reset: obs [M, D], no rewards, no ends."""
    nothing = np.zeros(len(obs))
    return StepAnswers(obs, nothing, nothing.astype(bool), nothing.astype(bool))
