"""Small training runs on CountingEnv: what happens before each collection, and what is learned."""

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from tests.tiny_envs import make_counting_envs
from workflow_rl.agents import algorithm
from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.sac.agent import SACAgent
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.runs import learner, loop, read_checkpoint
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.read_checkpoint import load_checkpoint

Learned = tuple[int, list[Trajectory]]
PPO = {"hidden_sizes": (8,), "minibatch_size": 40, "epochs": 1}

Before: Any = Callable[[LocalPool, Any, int], None]
"""Is called with the pool, the policy and how many collections were before this one."""


def config_of(
    mode: str = "async", settings: dict[str, Any] | None = None, **changes: Any
) -> TrainConfig:
    """A run of 5 envs; of 6 updates if its batches are 6 complete episodes.

    Every algorithm has PPO's defaults for the settings that PPO has too.
    """
    fields: dict[str, Any] = {
        **{"n_envs": 5, "total_episodes": 36, "seed": 3},
        # What CountingEnv shows and takes, for all algorithms.
        "env_args": {"red_agent": "mixed", "observation": "table", "actions": "all"},
    }
    if "num_steps_per_env" not in changes:
        fields["episodes_per_update"] = 6
    fields.update(changes)
    known = algorithm.find(changes.get("algorithm", "ppo")).settings.model_fields
    of_ppo = dict(PPOConfig(**PPO)).items()  # type: ignore[arg-type]
    shared = {name: value for name, value in of_ppo if name in known}
    return TrainConfig(mode=mode, settings={**shared, **(settings or {})}, **fields)


class Interfered:
    """A collector before whose collections something happens, in the thread that collects."""

    def __init__(self, collector: Any, pool: LocalPool, before: Before) -> None:
        self._collector, self._pool, self._before = collector, pool, before
        self._count = 0
        self.start_unrolls = collector.start_unrolls

    def _interfere(self, policy: Any) -> None:
        self._before(self._pool, policy, self._count)
        self._count += 1

    def collect(self, policy: Any, specs: Any, *following: Any) -> Any:
        self._interfere(policy)
        return self._collector.collect(policy, specs, *following)

    def unroll(self, policy: Any, times: int = 1) -> Any:
        self._interfere(policy)
        return self._collector.unroll(policy, times)


@contextmanager
def on_counting_envs(make_envs: Any = make_counting_envs) -> Iterator[pytest.MonkeyPatch]:
    """Runs in here step these envs."""
    with pytest.MonkeyPatch.context() as patch:
        # No method: what workers get is the function itself.
        patch.setattr(Cage2, "make_envs", staticmethod(make_envs))
        yield patch


def run(
    path: Path,
    config: TrainConfig,
    before: Before | None = None,
    make_envs: Any = None,
    watch: Any = loop.stopped_by_signals,
) -> dict[str, Any]:
    """Start the run in `path`, or go on with it. CAGE-2's envs are CountingEnvs, unless the config
    names a simulator."""
    names_simulator = "simulator" in config.given.get("env_args", {})
    is_replaced = make_envs is not None or not names_simulator

    make_collector = loop.make_collector

    def interfered(pool: LocalPool, config: TrainConfig) -> Any:
        collector = make_collector(pool, config)
        return collector if before is None else Interfered(collector, pool, before)

    resumed: Checkpoint | None = None
    if (path / "checkpoint.safetensors").exists():
        resumed = load_checkpoint(path / "checkpoint.safetensors")
    envs = on_counting_envs(make_envs or make_counting_envs) if is_replaced else nullcontext()
    with envs, patch.object(loop, "make_collector", interfered):
        return loop.train_policy(config, path, resumed, quiet=True, watch=watch)


def stop_before(number: int) -> Before:

    def stop(pool: LocalPool, policy: Any, count: int) -> None:
        if count == number:
            pool.stop_signal = signal.SIGINT

    return stop


def same_weights(one: Path, other: Path) -> bool:
    """Bitwise, of the runs' last agents."""
    left, right = (
        load_checkpoint(path / "checkpoint.safetensors").agent["network"] for path in (one, other)
    )
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def plain(state: Any) -> Any:
    """A state_dict in which tensors are their shapes and numbers, so that two can be compared; and
    so are arrays."""
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [plain(value) for value in state]
    if isinstance(state, torch.Tensor | np.ndarray):
        return (str(state.dtype), tuple(state.shape), state.tolist())
    return state


def all_of(agent: SACAgent) -> Any:
    """What it has learned, and the steps that it remembers, so that two can be compared."""
    steps = agent.replay.steps if len(agent.replay) else None
    imagined = agent.imagined if isinstance(agent, MBPOAgent) else []
    return plain([agent.state_dict(), agent.replay.n_added, steps, imagined])


def remembering_agent(path: Path) -> Any:
    """The last agent of a run of sac or mbpo, with the steps that it remembers."""
    checkpoint = load_checkpoint(path / "checkpoint.safetensors")
    agent = learner.make_agent(TrainConfig.from_dict(checkpoint.config))
    assert isinstance(agent, SACAgent)
    read_checkpoint.restored_agent(agent, checkpoint, path)
    read_checkpoint.load_memory(agent, checkpoint, path)
    return agent


@contextmanager
def recorded_updates(before_update: Callable[[], None] = lambda: None) -> Iterator[list[Learned]]:
    """What agents learn from in here: the version they had, and the trajectories."""
    updates: list[Learned] = []

    def recording(update: Any) -> Any:
        def recorded(agent: Any, trajectories: list[Trajectory], progress: float) -> Any:
            updates.append((agent.policy_version, list(trajectories)))
            before_update()
            return update(agent, trajectories, progress)

        return recorded

    with pytest.MonkeyPatch.context() as patch:
        for kind in (PPOAgent, SACAgent):
            patch.setattr(kind, "update", recording(kind.update))
        yield updates


def lags(updates: list[Learned]) -> list[set[int]]:
    return [{version - t.policy_version for t in learned} for version, learned in updates]


def assert_one_episode_each(trajectories: list[Trajectory]) -> None:
    """A trajectory's observations are of consecutive steps of one episode, from where it says.

    CountingEnv counts an episode's steps in the first 8 bits.
    """
    for trajectory in trajectories:
        obs = [*trajectory.obs, trajectory.last_obs]
        steps = [int("".join(map(str, row[:8])), 2) for row in obs]
        assert steps == list(
            range(trajectory.steps_before, trajectory.steps_before + trajectory.length + 1)
        )


def assert_nothing_missing(trajectories: list[Trajectory], n_envs: int) -> None:
    """Together they are what each env has played from its first step on, each step once."""
    by_episode: dict[int, list[Trajectory]] = {}
    for trajectory in sorted(trajectories, key=lambda t: (t.episode, t.steps_before)):
        by_episode.setdefault(trajectory.episode, []).append(trajectory)
    for pieces in by_episode.values():
        assert pieces[0].steps_before == 0
        for piece, following in itertools.pairwise(pieces):
            assert following.steps_before == piece.steps_before + piece.length
            assert not piece.ended
    for env in range(n_envs):
        played = sorted(number for number in by_episode if number % n_envs == env)
        assert played == list(range(env, env + len(played) * n_envs, n_envs))
        assert all(by_episode[number][-1].ended for number in played[:-1])
