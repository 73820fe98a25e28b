"""Episodes that were lost with their worker are played again up to where they were."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.altered import altered
from tests.tiny_envs import CountingEnv, SleepyEnv
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.collection import local_pool
from workflow_rl.collection import pool as pool_module
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.env_positions import first_positions
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.sync_collector import PooledEnvs, digests_after
from workflow_rl.environments.env_batch import SerialEnvs, StepAnswers
from workflow_rl.environments.episode import episode_spec


class OfItsProcessEnv(CountingEnv):
    """Shows what no seed decides."""

    def _obs(self):
        obs = super()._obs()
        obs[-16:] = np.unpackbits(np.array([os.getpid() % 2**16], ">u2").view(np.uint8))
        return obs


def stepped_and_killed(make_env: Callable[[], Any], n_steps: int, **pool_options: Any) -> list[Any]:
    """The answers of 4 envs of one worker, which is killed before the last step."""
    actions = np.random.default_rng(0).integers(145, size=(n_steps, 4))
    with LocalPool(partial(SerialEnvs, make_env), 1, 4, **pool_options) as pool:
        envs = PooledEnvs(pool, 4)
        all_envs = list(range(4))
        answers: list[Any] = [envs.reset(all_envs, [episode_spec(3, n, ()) for n in range(4)])]
        for t in range(n_steps):
            if t == n_steps - 1:
                os.kill(pool._workers[0].process.pid, signal.SIGKILL)
            answers.append(envs.step(all_envs, actions[t]))
        assert pool.failures == 1
    return answers


@pytest.fixture
def clock(monkeypatch, tmp_path) -> Path:
    """The steps of ticking envs are the seconds by which workers are judged, without any grace: one
    that is kept from a core loses no time."""
    clock = tmp_path / "clock"
    clock.touch()
    in_steps = SimpleNamespace(monotonic=lambda: clock.stat().st_size)
    monkeypatch.setattr(pool_module, "time", in_steps)
    monkeypatch.setattr(local_pool, "time", in_steps)
    monkeypatch.setattr(local_pool, "GRACE_SECONDS", 0.0)
    return clock


def ticking(clock: Path, *arguments: Any) -> Callable[[], Any]:
    """What makes envs of which each step makes a file a byte longer."""

    def tick(env: Any, answer: Any) -> Any:
        with clock.open("ab") as file:
            file.write(b".")
        return answer

    return partial(altered(SleepyEnv, tick), *arguments)


def test_replaying_long_episodes_takes_no_worker_for_one_that_hangs(caplog, clock):
    """Forty steps are to be replayed, and every answer must come within thirty."""
    slow = ticking(clock, 0.02, 0.0, 20, 20)
    answers = stepped_and_killed(slow, 10, timeout=30.0)
    undisturbed = partial(CountingEnv, min_length=20, max_length=20)
    expected = stepped_and_killed(undisturbed, 10)
    assert (answers[0] == expected[0]).all()
    for answer, other in zip(answers[1:], expected[1:], strict=True):
        for column, other_column in zip(answer, other, strict=True):
            assert (column == other_column).all()
    assert "went otherwise" not in caplog.text


def test_an_episode_of_two_histories_is_told(caplog):
    stepped_and_killed(partial(OfItsProcessEnv, min_length=20, max_length=20), 5)
    assert caplog.text.count("went otherwise") == 4
    assert "episode 3 went otherwise when it was played again" in caplog.text


def test_restoring_unrolls_takes_no_worker_for_one_that_hangs(policy, clock):
    """Forty steps are to be replayed, and every answer must come within thirty."""
    rollouts = []
    slow = ticking(clock, 0.03, 0.0, 30, 30)
    undisturbed = partial(CountingEnv, min_length=30, max_length=30)
    for make_env, dies in ((slow, True), (undisturbed, False)):
        with LocalPool(partial(SerialEnvs, make_env), 1, 4, timeout=30.0) as pool:
            envs = AsyncCollector(pool)
            envs.start_unrolls(first_positions(3, (), 4), 2)
            trajectories = [t for _ in range(5) for t in envs.unroll(policy).trajectories]
            if dies:
                os.kill(pool._workers[0].process.pid, signal.SIGKILL)
            rollouts.append(trajectories + envs.unroll(policy).trajectories)
            assert pool.failures == dies
    assert_same_trajectories(*rollouts)


def test_digests_tell_orders_apart():
    """Activity on one host and then on another is not that on a third one twice."""

    def digest(hosts: list[int]) -> int:
        digests = np.zeros(1, np.uint64)
        for host in hosts:
            obs = np.zeros((1, 52), np.uint8)
            obs[0, 4 * host] = 1
            nothing = np.zeros(1)
            answers = StepAnswers(obs, nothing, nothing.astype(bool), nothing.astype(bool))
            digests = digests_after(digests, answers)
        return int(digests[0])

    pairs = [[first, second] for first in range(13) for second in range(13)]
    assert len({digest(pair) for pair in pairs}) == len(pairs)
