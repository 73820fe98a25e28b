"""The loop that plays episodes: an episode as a pure function of the actor and its spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.policies.distributions import Actions
from agents.policies.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.environments.env_batch import EnvBatch, Obs, Transitions
from workflow_rl.environments.episode import EpisodeSpec

BLOCK_STEPS = 128

NextSpec: TypeAlias = Callable[[int], EpisodeSpec | None]
"""The next episode of an env, by its number; None if there is none."""


def play_episodes(
    envs: EnvBatch, actor: Actor, specs: Iterable[EpisodeSpec]
) -> Iterator[list[Trajectory]]:
    """Play every spec, as many at once as there are envs.

    Yields the trajectories that end with the same step together. Which env plays an episode, and
    what the others play meanwhile, makes no difference to it.
    """
    waiting = iter(specs)
    player = Player(envs, lambda env: next(waiting, None))
    while player.begin(actor):
        finished = player.step(actor)
        if finished:
            yield finished


def play_episode(envs: EnvBatch, actor: Actor, spec: EpisodeSpec) -> Trajectory:
    """One complete episode."""
    ((trajectory,),) = play_episodes(envs, actor, [spec])
    return trajectory


class Player:
    """N envs, each playing one episode after another."""

    def __init__(self, envs: EnvBatch, next_spec: NextSpec) -> None:
        self._envs = envs
        self._next_spec = next_spec
        self._recorder = EpisodeRecorder(envs.n_envs)

    def begin(self, actor: Actor) -> bool:
        """Begin the next episode in every env that is in none. False if none is in any then."""
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
        """One step of all that play. Returns the episodes that end with it."""
        playing = self._recorder.playing
        actions, log_probs = actor.act(self._recorder.obs, playing)
        transitions = self._envs.step(playing, actions)
        return self._recorder.record(actions, log_probs, transitions, actor.policy_version)

    def unroll(self, actor: Actor, n_steps: int) -> list[Trajectory]:
        """So many steps in every env, from where it is, and through the ends of episodes.

        Returns trajectories of one episode each, an env's in order; those that go on have not
        `ended`.
        """
        for env, spec in self._recorder.specs.items():
            actor.reset(spec.action_seed, env, n_acted=self._recorder.steps_before[env])
        trajectories: list[Trajectory] = []
        for _ in range(n_steps):
            self.begin(actor)
            trajectories += self.step(actor)
        return trajectories + self._recorder.cut(actor.policy_version)

    def restore(
        self,
        specs: Mapping[int, EpisodeSpec],
        actions: Mapping[int, Actions],
    ) -> Iterator[None]:
        """Bring each env to where its actions, at least one, lead in its episode. Yields after
        every step on the way."""
        envs = list(specs)
        obs = np.array(self._envs.reset(envs, list(specs.values())))
        returns = np.zeros(len(envs))
        for t in range(max(map(len, actions.values()))):
            rows = [row for row, env in enumerate(envs) if t < len(actions[env])]
            going_on = [envs[row] for row in rows]
            transitions = self._envs.step(going_on, np.stack([actions[env][t] for env in going_on]))
            obs[rows] = transitions.obs
            returns[rows] += transitions.reward
            yield
        for row, env in enumerate(envs):
            self._recorder.begin(
                {env: specs[env]}, obs[row : row + 1], len(actions[env]), float(returns[row])
            )


class EpisodeRecorder:
    """The episodes that N envs are in the middle of.

    Attributes:
        playing: the envs that are in an episode, ascending: `M` of them.
        idle: the others.
        specs: of those playing.
        steps_before: by env, the steps of its episode that are in trajectories already.
    """

    def __init__(self, n_envs: int) -> None:
        self.playing: list[int] = []
        self.idle = list(range(n_envs))
        self.specs: dict[int, EpisodeSpec] = {}
        self.steps_before = [0] * n_envs
        self._return_before = [0.0] * n_envs
        self._n_envs = n_envs
        self._last_obs: Obs = np.empty(0)
        # A block of the latest steps, arrays [BLOCK_STEPS, N, ...]: row `t` is what happened in all
        # envs at its t-th step. What is older lies env by env, as long as no trajectory has it.
        self._block: _Columns | None = None
        self._now = 0
        self._started_at: dict[int, int] = {}
        self._older: dict[int, list[_Columns]] = {}

    @property
    def obs(self) -> Obs:
        """What those playing see now, [M, D]."""
        return self._last_obs[self._columns]

    @property
    def _columns(self) -> slice | list[int]:
        return self.playing if self.idle else slice(None)

    def begin(
        self,
        specs: dict[int, EpisodeSpec],
        obs: Obs,
        steps_before: int = 0,
        return_before: float = 0.0,
    ) -> None:
        """These envs are in an episode now, and see obs [len(specs), D]."""
        if not len(self._last_obs):
            self._last_obs = np.empty((self._n_envs, *obs.shape[1:]), obs.dtype)
        self._last_obs[list(specs)] = obs
        for env, spec in specs.items():
            self.specs[env] = spec
            self.steps_before[env], self._return_before[env] = steps_before, return_before
            self._started_at[env] = self._now
            self._older[env] = []
        self._regroup()

    def record(
        self,
        actions: Actions,
        log_probs: NDArray[np.float32],
        transitions: Transitions,
        policy_version: int,
    ) -> list[Trajectory]:
        """Add the step of those playing, all [M, ...]. Returns the episodes that ended with it."""
        if self._block is None:
            shape = (BLOCK_STEPS, self._n_envs)
            self._block = _Columns(
                np.empty((*shape, *self._last_obs.shape[1:]), self._last_obs.dtype),
                np.empty((*shape, *actions.shape[1:]), actions.dtype),
                np.empty(shape, np.float32),
                np.empty(shape, np.float64),
            )
        if self._now == BLOCK_STEPS:
            self._begin_block()
        columns = self._columns
        self._block.obs[self._now, columns] = self._last_obs[columns]
        self._block.action[self._now, columns] = actions
        self._block.log_prob[self._now, columns] = log_probs
        self._block.reward[self._now, columns] = transitions.reward
        self._last_obs[columns] = transitions.obs
        self._now += 1
        ended = transitions.terminated | transitions.truncated
        if not ended.any():
            return []
        finished = []
        for row in np.flatnonzero(ended).tolist():
            env = self.playing[row]
            ends = bool(transitions.terminated[row]), bool(transitions.truncated[row])
            finished.append(self._trajectory(env, *ends, policy_version))
            del self.specs[env], self._started_at[env]
        self._regroup()
        return finished

    def cut(self, policy_version: int) -> list[Trajectory]:
        """What has been recorded of the episodes that go on. What follows is another trajectory."""
        trajectories = []
        for env in self.playing:
            if self._started_at[env] < self._now or self._older[env]:
                trajectory = self._trajectory(env, False, False, policy_version)
                trajectories.append(trajectory)
                self.steps_before[env] += trajectory.length
                # Step by step, so that the sum does not depend on where the cuts are.
                for reward in trajectory.reward.tolist():
                    self._return_before[env] += reward
                self._started_at[env] = self._now
        return trajectories

    def _trajectory(
        self, env: int, terminated: bool, truncated: bool, policy_version: int
    ) -> Trajectory:
        spec = self.specs[env]
        steps = self._taken(env)
        return Trajectory(
            episode=spec.number,
            variant=spec.variant,
            policy_version=policy_version,
            obs=steps.obs,
            action=steps.action,
            log_prob=steps.log_prob,
            reward=steps.reward,
            last_obs=self._last_obs[env].copy(),
            terminated=terminated,
            truncated=truncated,
            steps_before=self.steps_before[env],
            return_before=self._return_before[env],
        )

    def _taken(self, env: int) -> _Columns:
        """A copy of what is recorded of the env's episode and in no trajectory yet."""
        assert self._block is not None
        latest = self._block.of(slice(self._started_at[env], self._now), env)
        older, self._older[env] = self._older[env], []
        if not older:
            return latest
        return _Columns._make(map(np.concatenate, zip(*older, latest, strict=True)))

    def _regroup(self) -> None:
        self.playing = sorted(self.specs)
        self.idle = [env for env in range(self._n_envs) if env not in self.specs]

    def _begin_block(self) -> None:
        assert self._block is not None
        for env, start in self._started_at.items():
            if start < self._now:
                self._older[env].append(self._block.of(slice(start, self._now), env))
            self._started_at[env] = 0
        self._now = 0


class _Columns(NamedTuple):
    """What is recorded of steps: of [T] of one env, or of [T, N]."""

    obs: Obs
    action: Actions
    log_prob: NDArray[np.float32]
    reward: NDArray[np.float64]

    def of(self, steps: slice, env: int) -> _Columns:
        """A copy of these steps of one env."""
        return _Columns._make(column[steps, env].copy() for column in self)
