"""Synchronous collection: all environments step together, with a barrier at every step."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.numpy_policy import NumpyPolicy
from agents.trajectory import Trajectory
from workflow_rl.episode import EpisodeRecorder, EpisodeSpec, Transition
from workflow_rl.rollout import Rollout
from workflow_rl.worker import Command, Replay
from workflow_rl.worker_pool import WorkerError, WorkerPool


class ParallelEnv:
    """`n_envs` environments on a pool's workers: env `i` is worker `i % n_workers`'s.

    Every call waits for all the workers it involves: the per-step barrier.
    """

    def __init__(self, pool: WorkerPool, n_envs: int) -> None:
        assert pool.n_workers * pool.envs_per_worker >= n_envs
        self.pool = pool
        self.n_envs = n_envs
        self.busy_seconds = 0.0
        self._episodes: dict[int, tuple[EpisodeSpec, list[int]]] = {}

    def reset(self, specs: dict[int, EpisodeSpec]) -> dict[int, Transition]:
        """Begin an episode in each of the envs named, by index."""
        for env, spec in specs.items():
            self._episodes[env] = (spec, [])
        return self._barrier(list(specs), Command.REPLAY, self._replay)

    def step(self, actions: dict[int, int]) -> dict[int, Transition]:
        """Step each of the envs named once; the others rest."""
        for env, action in actions.items():
            self._episodes[env][1].append(action)
        return self._barrier(
            list(actions), Command.STEP, lambda env: (self._local(env), actions[env])
        )

    def _local(self, env: int) -> int:
        return env // self.pool.n_workers

    def _replay(self, env: int) -> Replay:
        spec, actions = self._episodes[env]
        return Replay(self._local(env), spec, actions)

    def _barrier(
        self, envs: Sequence[int], command: Command, payload_for: Callable[[int], Any]
    ) -> dict[int, Transition]:
        groups: dict[int, list[int]] = {}
        for env in envs:
            groups.setdefault(env % self.pool.n_workers, []).append(env)
        failed: dict[int, WorkerError] = {}
        for worker, group in groups.items():
            try:
                self.pool.send(worker, command, [payload_for(env) for env in group])
            except WorkerError as error:
                failed[worker] = error
        transitions: dict[int, Transition] = {}
        for worker, group in groups.items():
            answer = None
            if worker not in failed:
                try:
                    answer = self.pool.receive(worker)
                except WorkerError as error:
                    failed[worker] = error
            if worker in failed:
                transitions.update(self._recover(worker, failed[worker], group))
            elif answer is not None:
                self.busy_seconds += answer.busy_seconds
                transitions.update(zip(group, answer.result, strict=True))
        return transitions

    def _recover(
        self, worker: int, error: WorkerError, group: Sequence[int]
    ) -> dict[int, Transition]:
        """Replace a worker and bring its envs back to where they were: an episode follows from
        its spec and its actions. Returns the group's last transitions."""
        envs = [env for env in self._episodes if env % self.pool.n_workers == worker]
        while True:
            self.pool.replace(worker, error)
            try:
                self.pool.send(worker, Command.REPLAY, [self._replay(env) for env in envs])
                answer = self.pool.receive(worker)
            except WorkerError as next_error:
                error = next_error
            else:
                self.busy_seconds += answer.busy_seconds
                last = dict(zip(envs, answer.result, strict=True))
                return {env: last[env] for env in group}

    def collect(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play every spec, with one batched forward pass for all envs at each step.

        Gives bit for bit what asynchronous collection gives.
        Raises TooManyFailuresError, StopRequested.
        """
        start = time.perf_counter()
        failures_before, busy_before = self.pool.failures, self.busy_seconds
        waiting = deque(specs)
        playing: dict[int, EpisodeRecorder] = {}
        randoms: dict[int, np.random.Generator] = {}
        done: list[Trajectory] = []
        while len(done) < len(specs):
            idle = [env for env in range(self.n_envs) if env not in playing]
            starting = {env: waiting.popleft() for env in idle[: len(waiting)]}
            for env, first in self.reset(starting).items():
                playing[env] = EpisodeRecorder(starting[env], first)
                randoms[env] = np.random.default_rng(starting[env].action_seed)
            envs = list(playing)
            obs = np.stack([playing[env].last.obs for env in envs])
            actions, log_probs = policy.act_batch(obs, [randoms[env] for env in envs])
            chosen = {env: int(action) for env, action in zip(envs, actions, strict=True)}
            transitions = self.step(chosen)
            for env, log_prob in zip(envs, log_probs, strict=True):
                playing[env].record(chosen[env], float(log_prob), transitions[env])
                if playing[env].finished:
                    done.append(playing.pop(env).trajectory(policy.policy_version))
                    del self._episodes[env]
        return Rollout(
            trajectories=sorted(done, key=lambda trajectory: trajectory.episode),
            collect_seconds=time.perf_counter() - start,
            busy_seconds=self.busy_seconds - busy_before,
            n_workers=self.pool.n_workers,
            workers_restarted=self.pool.failures - failures_before,
        )
