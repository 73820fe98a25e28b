"""What is recorded of the episodes that several envs are playing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.environments.env_batch import Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

BLOCK_STEPS = 128


class EpisodeRecorder:
    """The episodes that N envs are playing.

    playing: the `M` envs that are in an episode, ascending. idle: the other envs. specs: by env
    that plays. steps_before: by env, the steps of its episode that trajectories hold already.
    burn_in: how many of these steps' observations are kept, the last ones.
    """

    def __init__(self, n_envs: int) -> None:
        self.playing: list[int] = []
        self.idle = list(range(n_envs))
        self.specs: dict[int, EpisodeSpec] = {}
        self.steps_before = [0] * n_envs
        self.burn_in = 0
        self._seen: dict[int, list[Obs]] = {}
        self._return_before = [0.0] * n_envs
        self._costs_before: dict[int, NDArray[np.float64]] = {}
        self._n_envs = n_envs
        self._last_obs: Obs = np.empty(0)
        # The latest steps of all envs, [BLOCK_STEPS, N, ...]. Older steps that no trajectory holds
        # yet are kept env by env.
        self._block: _Columns | None = None
        self._now = 0
        self._started_at: dict[int, int] = {}
        self._older: dict[int, list[_Columns]] = {}

    @property
    def obs(self) -> Obs:
        """What the envs that play show now, [M, D]."""
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
        seen_before: Sequence[Obs] = (),
        costs_before: NDArray[np.float64] | None = None,
    ) -> None:
        """Begin these envs' episodes, which show obs [len(specs), D].

        steps_before, return_before, seen_before, costs_before: what trajectories hold already of
        the episodes; no costs_before stands for zeros.
        """
        if not len(self._last_obs):
            self._last_obs = np.empty((self._n_envs, *obs.shape[1:]), obs.dtype)
        self._last_obs[list(specs)] = obs
        for env, spec in specs.items():
            self.specs[env] = spec
            self.steps_before[env], self._return_before[env] = steps_before, return_before
            self._costs_before.pop(env, None)
            if costs_before is not None:
                self._costs_before[env] = costs_before
            self._started_at[env] = self._now
            self._older[env] = []
            self._seen[env] = list(seen_before)
        self._regroup()

    def seen_before(self, env: int) -> Obs | None:
        """Return the last observations [K, D] that trajectories hold of the env's episode: at most
        `burn_in`, None if none are kept."""
        seen = self._seen[env][-self.burn_in :] if self.burn_in else []
        return np.stack(seen) if seen else None

    def record(
        self,
        actions: Actions,
        log_probs: NDArray[np.float32],
        transitions: StepAnswers,
        policy_version: int,
    ) -> list[Trajectory]:
        """Add a step of the envs that play, all arrays [M, ...].

        Returns the trajectories of the episodes that end with it.
        """
        costs = transitions.costs
        if self._block is None:
            shape = (BLOCK_STEPS, self._n_envs)
            n_costs = 0 if costs is None else costs.shape[1]
            self._block = _Columns(
                np.empty((*shape, *self._last_obs.shape[1:]), self._last_obs.dtype),
                np.empty((*shape, *actions.shape[1:]), actions.dtype),
                np.empty((*shape, *log_probs.shape[1:]), np.float32),
                np.empty(shape, np.float64),
                np.empty((*shape, n_costs), np.float64),
            )
        if self._now == BLOCK_STEPS:
            self._begin_block()
        columns = self._columns
        self._block.obs[self._now, columns] = self._last_obs[columns]
        self._block.action[self._now, columns] = actions
        self._block.log_prob[self._now, columns] = log_probs
        self._block.reward[self._now, columns] = transitions.reward
        if costs is not None:
            self._block.costs[self._now, columns] = costs
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
        """Return what was recorded of the episodes that go on. Later trajectories continue them."""
        trajectories = []
        for env in self.playing:
            if self._started_at[env] < self._now or self._older[env]:
                trajectory = self._trajectory(env, False, False, policy_version)
                trajectories.append(trajectory)
                self.steps_before[env] += trajectory.length
                # Added step by step, the sum does not depend on where the cuts are.
                for reward in trajectory.reward.tolist():
                    self._return_before[env] += reward
                if trajectory.costs is not None:
                    self._costs_before[env] = trajectory.episode_costs
                self._started_at[env] = self._now
                if self.burn_in:
                    self._seen[env] = [*self._seen[env], *trajectory.obs][-self.burn_in :]
        return trajectories

    def _trajectory(
        self, env: int, terminated: bool, truncated: bool, policy_version: int
    ) -> Trajectory:
        spec = self.specs[env]
        steps = self._taken(env)
        n_costs = steps.costs.shape[1]
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
            seen_before=self.seen_before(env),
            costs=steps.costs if n_costs else None,
            costs_before=self._costs_before.get(env, np.zeros(n_costs)) if n_costs else None,
        )

    def _taken(self, env: int) -> _Columns:
        """Return a copy of the env's steps that no trajectory holds yet."""
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
    """What is recorded of steps: arrays [T, ...] of one env, or [T, N, ...]."""

    obs: Obs
    action: Actions
    log_prob: NDArray[np.float32]
    reward: NDArray[np.float64]
    costs: NDArray[np.float64]

    def of(self, steps: slice, env: int) -> _Columns:
        """Return a copy of these steps of one env."""
        return _Columns._make(column[steps, env].copy() for column in self)
