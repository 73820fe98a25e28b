"""The loop that plays episodes: an episode as a pure function of the actor and its spec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from agents.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.env_batch import EnvBatch, Obs, Transitions
from workflow_rl.episode import EpisodeSpec


def play_episodes(
    envs: EnvBatch, actor: Actor, specs: Iterable[EpisodeSpec]
) -> Iterator[list[Trajectory]]:
    """Play every spec, as many at once as there are envs.

    Yields the trajectories that end with the same step together. Which env plays an episode, and
    what the others play meanwhile, makes no difference to it.
    """
    waiting = iter(specs)
    recorder = EpisodeRecorder(envs.n_envs)
    while True:
        starting = dict(zip(recorder.idle, waiting, strict=False))
        if starting:
            first = envs.reset(list(starting), list(starting.values()))
            recorder.begin(starting, first)
            for env, spec in starting.items():
                actor.reset(spec.action_seed, env)
        if not recorder.playing:
            return
        actions, log_probs = actor.act(recorder.obs, recorder.playing)
        transitions = envs.step(recorder.playing, actions.tolist())
        finished = recorder.record(actions, log_probs, transitions, actor.policy_version)
        if finished:
            yield finished


class EpisodeRecorder:
    """The episodes that N envs are in the middle of.

    Attributes:
        playing: the envs that are in an episode, ascending: `M` of them.
        idle: the others.
    """

    def __init__(self, n_envs: int) -> None:
        self.playing: list[int] = []
        self.idle = list(range(n_envs))
        self._n_envs = n_envs
        self._specs: dict[int, EpisodeSpec] = {}
        self._started_at: dict[int, int] = {}
        # Arrays [capacity, N, ...]: row `t` is what happened in all envs at the t-th step of them
        # all, and an episode is a column from when it started.
        self._now = 0
        self._capacity = 0
        self._last_obs: Obs = np.empty(0)
        self._obs: Obs = np.empty(0)
        self._action = np.empty((0, n_envs), np.int64)
        self._log_prob = np.empty((0, n_envs), np.float32)
        self._reward = np.empty((0, n_envs), np.float64)

    @property
    def obs(self) -> Obs:
        """What those playing see now, [M, D]."""
        return self._last_obs[self._columns]

    @property
    def _columns(self) -> slice | list[int]:
        return self.playing if self.idle else slice(None)

    def _regroup(self) -> None:
        self.playing = sorted(self._specs)
        self.idle = [env for env in range(self._n_envs) if env not in self._specs]

    def begin(self, specs: dict[int, EpisodeSpec], obs: Obs) -> None:
        """Episodes have begun in these envs, with observations [len(specs), D]."""
        if self._capacity == 0:
            self._last_obs = np.empty((self._n_envs, *obs.shape[1:]), obs.dtype)
            self._obs = np.empty((0, *self._last_obs.shape), obs.dtype)
        self._last_obs[list(specs)] = obs
        self._specs.update(specs)
        self._started_at.update(dict.fromkeys(specs, self._now))
        self._regroup()

    def record(
        self,
        actions: NDArray[np.int64],
        log_probs: NDArray[np.float32],
        transitions: Transitions,
        policy_version: int,
    ) -> list[Trajectory]:
        """Add the step of those playing, all [M]. Returns the episodes that ended with it."""
        if self._now == self._capacity:
            self._make_room()
        columns = self._columns
        self._obs[self._now, columns] = self._last_obs[columns]
        self._action[self._now, columns] = actions
        self._log_prob[self._now, columns] = log_probs
        self._reward[self._now, columns] = transitions.reward
        self._last_obs[columns] = transitions.obs
        self._now += 1
        ended = transitions.terminated | transitions.truncated
        if not ended.any():
            return []
        finished = [
            self._finish(
                self.playing[row],
                bool(transitions.terminated[row]),
                bool(transitions.truncated[row]),
                policy_version,
            )
            for row in np.flatnonzero(ended).tolist()
        ]
        self._regroup()
        return finished

    def _finish(
        self, env: int, terminated: bool, truncated: bool, policy_version: int
    ) -> Trajectory:
        spec = self._specs.pop(env)
        steps = slice(self._started_at.pop(env), self._now)
        return Trajectory(
            episode=spec.number,
            red_agent=spec.red_agent,
            policy_version=policy_version,
            obs=self._obs[steps, env].copy(),
            action=self._action[steps, env].copy(),
            log_prob=self._log_prob[steps, env].copy(),
            reward=self._reward[steps, env].copy(),
            last_obs=self._last_obs[env].copy(),
            terminated=terminated,
            truncated=truncated,
        )

    def _make_room(self) -> None:
        """Forget the steps of episodes that have ended, and double what is left."""
        oldest = min(self._started_at.values())
        kept = self._now - oldest
        self._capacity = max(128, 2 * kept)
        for name in ("_obs", "_action", "_log_prob", "_reward"):
            before = getattr(self, name)
            larger = np.empty((self._capacity, *before.shape[1:]), before.dtype)
            larger[:kept] = before[oldest : self._now]
            setattr(self, name, larger)
        self._now = kept
        for env in self._started_at:
            self._started_at[env] -= oldest


def play_episode(envs: EnvBatch, actor: Actor, spec: EpisodeSpec) -> Trajectory:
    """One complete episode."""
    ((trajectory,),) = play_episodes(envs, actor, [spec])
    return trajectory
