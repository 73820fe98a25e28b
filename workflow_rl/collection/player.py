"""The loop that plays episodes. An episode is a pure function of the actor and the spec."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.numpy_policy import Actor, burn_in_of
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.assignments import EnvPosition
from workflow_rl.environments.env_batch import EnvBatch, Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.life import alive

BLOCK_STEPS = 128


class EpisodeRecorder:
    """The episodes that N envs are playing.

    playing: the `M` envs that are in an episode, ascending. idle: the other envs. specs: the spec
    of each env that plays. steps_before: by env, the steps of its episode in earlier trajectories.
    burn_in: how many of these earlier steps' last observations are kept.
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
        # The latest steps of all envs, [BLOCK_STEPS, N, ...]. Older steps that are in no trajectory
        # yet are kept env by env.
        self._block: _Columns | None = None
        self._now = 0
        self._started_at: dict[int, int] = {}
        self._older: dict[int, list[_Columns]] = {}

    @property
    def obs(self) -> Obs:
        """The current observations of the envs that play, [M, D]."""
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
        """Begin these envs' episodes, whose observations are obs [len(specs), D].

        steps_before, return_before, seen_before, costs_before: the part of the episodes that is in
        earlier trajectories. costs_before None means zeros.
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
        """Return the last observations [K, D] of the env's episode in earlier trajectories, at most
        `burn_in`; None if none are kept."""
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

        Returns the trajectories of the episodes that end with this step.
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
        """Return the recorded steps of unfinished episodes. Later trajectories continue them."""
        trajectories = []
        for env in self.playing:
            if self._started_at[env] < self._now or self._older[env]:
                trajectory = self._trajectory(env, False, False, policy_version)
                trajectories.append(trajectory)
                self.steps_before[env] += trajectory.length
                # If rewards are added step by step, the cuts do not change the sum's bits.
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
        """Return a copy of the env's steps that are in no trajectory yet."""
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
    """The recorded arrays of steps: [T, ...] for one env, or [T, N, ...]."""

    obs: Obs
    action: Actions
    log_prob: NDArray[np.float32]
    reward: NDArray[np.float64]
    costs: NDArray[np.float64]

    def of(self, steps: slice, env: int) -> _Columns:
        return _Columns._make(column[steps, env].copy() for column in self)


NextSpec: TypeAlias = Callable[[int], EpisodeSpec | None]
"""Takes an env's number, and returns the env's next episode, or None."""


def play_episodes(
    envs: EnvBatch, actor: Actor, specs: Iterable[EpisodeSpec]
) -> Iterator[list[Trajectory]]:
    """Play every spec, as many episodes at once as there are envs.

    Trajectories that end in the same step are yielded together. A trajectory does not depend on the
    env that plays it, or on the episodes of other envs.
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
        """Begin the next episode of every idle env. Return whether any env plays now."""
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
        """Step every env `n_steps` times from its current step. New episodes follow ended ones.

        Each returned trajectory is of one episode. An env's trajectories are in order. If the
        episode goes on, the trajectory's `ended` is false.
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
        """Bring envs to a step of their episodes by playing all actions, at least one for each env.

        If an episode ends earlier, its seed does not decide the episode. The env then begins the
        episode again.

        specs, actions: by env. burn_in: the burn-in of the actor that goes on.
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
    """Return a player of these envs, after each env was brought to its position.

    burn_in: the burn-in of the actor that goes on.
    """
    # By env: the episode that the env begins next.
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
    """Play M episodes again, in parallel, until their actions are used up or they end.

    reset, step: the methods of an EnvBatch. specs, actions: by env.

    Yields row numbers, 0 to M - 1, and these rows' answers: first the answers of all rows to the
    reset, then to each step the answers of the rows that still have actions.
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
