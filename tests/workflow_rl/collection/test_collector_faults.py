import os
import signal
from asyncio import CancelledError
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.altered import altered
from tests.faulty_env import FAULTS, FaultyEnv
from tests.tiny_envs import CountingEnv, RaisingEnv, SleepyEnv
from tests.workflow_rl.collection.collectors import COLLECTORS
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection import local_pool
from workflow_rl.collection import pool as pool_module
from workflow_rl.collection.assignments import first_positions
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import TooManyFailuresError, WorkerError
from workflow_rl.collection.player import player_at
from workflow_rl.collection.pool import MAX_RAISES, WorkerConnection
from workflow_rl.collection.rollout import in_order
from workflow_rl.collection.sync_collector import PooledEnvs, SyncCollector, digests_after
from workflow_rl.environments.env_batch import SerialEnvs, StepAnswers
from workflow_rl.environments.episode import episode_spec


def only_the_struck_must_hurry(ticket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker whose process the ticket names has a second for its answers. All others may be
    kept from a core for long."""
    overdue = WorkerConnection.overdue.fget

    def is_overdue(worker: Any) -> bool:
        if ticket.exists() and ticket.read_text() == str(worker.process.pid):
            worker.timeout = 1.0
        return overdue(worker)

    monkeypatch.setattr(WorkerConnection, "overdue", property(is_overdue))


@pytest.mark.system
@pytest.mark.usefixtures("exit_codes_are_known")
@pytest.mark.parametrize("method", ["create", "reset", "step"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("collect", COLLECTORS)
def test_a_worker_that_fails_changes_nothing(
    collect, fault, method, policy, specs, expected, tmp_path, caplog, monkeypatch
):
    make_env = partial(
        FaultyEnv, CountingEnv, fault, method, 1 if method == "create" else 3, [tmp_path / "1"]
    )
    if fault in ("hang", "stopped"):
        only_the_struck_must_hurry(tmp_path / "1", monkeypatch)
    rollout = collect(make_env, policy, specs)
    assert_same_trajectories(rollout.trajectories, expected)
    messages = [record.getMessage() for record in caplog.records]
    # Until it hangs, it may be slow, if it gets no core.
    (message,) = [message for message in messages if " is slow: " not in message]
    assert message.startswith(("worker-0 ", "worker-1 "))
    assert "during '" in message
    assert (tmp_path / "1").exists()
    if fault == "exception":
        assert "ArithmeticError: the injected fault" in message
        assert "exit code: 1" in message
    elif fault == "exit":
        assert "ended" in message
        assert "exit code: 7" in message
    elif fault == "killed":
        assert "SIGKILL" in message
    else:
        assert "gave no sign of life for 1 s" in message
        assert "still running" in message


@pytest.mark.usefixtures("exit_codes_are_known")
@pytest.mark.parametrize("method", ["create", "step"])
@pytest.mark.parametrize("collect", COLLECTORS)
def test_failures_without_end_stop_the_collection(collect, method, policy, specs, tmp_path):
    tickets = [tmp_path / str(number) for number in range(100)]
    make_env = partial(FaultyEnv, CountingEnv, "exception", method, 1, tickets)
    with pytest.raises(TooManyFailuresError, match="at most 4 may") as caught:
        collect(make_env, policy, specs, max_failures=4)
    assert "ArithmeticError: the injected fault" in str(caught.value)
    assert isinstance(caught.value.__cause__, WorkerError)
    assert caught.value.__cause__.exitcode == 1


@pytest.mark.parametrize(
    ("broken", "method", "error"),
    [
        ((2, 7), "reset", ArithmeticError),
        ((2, 7), "step", ArithmeticError),
        ((2,), "reset", SystemExit),
        ((2,), "step", KeyboardInterrupt),
        ((2,), "step", CancelledError),
    ],
)
@pytest.mark.parametrize("collect", COLLECTORS)
def test_an_episode_that_always_raises_or_exits_is_left_out(
    collect, broken, method, error, policy, specs, expected, caplog
):
    """It counts as one failure, however often it was tried."""
    seeds = frozenset(specs[number].env_seed for number in broken)
    make_env = partial(RaisingEnv, seeds, method, error)
    rollout = collect(make_env, policy, specs, max_failures=len(broken))
    assert_same_trajectories(rollout.trajectories, [t for t in expected if t.episode not in broken])
    assert sorted(rollout.skipped) == list(broken)
    assert rollout.episodes == len(specs)
    assert rollout.workers_restarted == len(broken) * MAX_RAISES
    assert f"raised {error.__name__}: no " in caplog.text
    for number in broken:
        assert f"episode {number} is left out: " in caplog.text


@pytest.mark.parametrize("collect", COLLECTORS)
def test_an_exception_is_shown_once_with_the_users_line(collect, policy, specs, caplog):
    broken = frozenset(spec.env_seed for spec in specs[2:4])
    collect(partial(RaisingEnv, broken), policy, specs)
    assert caplog.text.count("Traceback") == 1
    assert 'raise self._error(f"no second step' in caplog.text
    assert "sync_collector.py" not in caplog.text
    assert "worker.py" not in caplog.text
    for number in (2, 3):
        (line,) = [r.getMessage() for r in caplog.records if f"in episode {number} " in r.message]
        assert "raised ArithmeticError: no second step" in line
        assert "tiny_envs.py, line " in line
        assert "exit code: 1" in line


@pytest.mark.parametrize("collect", COLLECTORS)
def test_a_batch_of_nothing_but_broken_episodes_stops_the_collection(collect, policy, specs):
    make_env = partial(RaisingEnv, frozenset(spec.env_seed for spec in specs))
    with pytest.raises(TooManyFailuresError, match="all 2 episodes of a batch raise exceptions"):
        collect(make_env, policy, specs[:2])


@pytest.mark.parametrize("collect", COLLECTORS)
def test_an_episode_that_raises_twice_is_played_in_the_end(
    collect, policy, specs, expected, tmp_path
):
    tickets = [tmp_path / str(number) for number in range(MAX_RAISES - 1)]
    make_env = partial(FaultyEnv, CountingEnv, "exception", "reset", 1, tickets)
    rollout = collect(make_env, policy, specs, n_workers=1)
    assert_same_trajectories(rollout.trajectories, expected)
    assert rollout.workers_restarted == MAX_RAISES - 1


@pytest.mark.parametrize("method", ["reset", "step"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_env_that_goes_on_leaves_an_episode_out(mode, method, policy, caplog):
    """Its pieces in unrolls before are kept; its next episode begins where they end."""
    positions = first_positions(3, RED_AGENTS, 5)
    broken = positions[1]._replace(episode=11)
    make_env = partial(RaisingEnv, frozenset([broken.spec.env_seed]), method)
    with LocalPool(partial(SerialEnvs, make_env), 2, 3, max_failures=1) as pool:
        collector = SyncCollector(pool, 5) if mode == "sync" else AsyncCollector(pool)
        collector.start_unrolls(positions, 7)
        rollouts = [collector.unroll(policy) for _ in range(4)]
    assert [number for rollout in rollouts for number in rollout.skipped] == [11]
    known = [position._replace(skipped=(11,)) for position in positions]
    player = player_at(SerialEnvs(CountingEnv, 5), known)
    for rollout in rollouts:
        played = player.unroll(policy, 7)
        assert_same_trajectories(rollout.trajectories, in_order(played))
    assert rollouts[-1].positions[1].skipped == (11,)


@pytest.mark.parametrize("collector_of", [AsyncCollector, partial(SyncCollector, n_envs=3)])
def test_restarts_are_those_of_the_collection(collector_of, policy, specs, expected):
    with LocalPool(partial(SerialEnvs, CountingEnv), 3) as pool:
        collector = collector_of(pool)
        for n_killed in (1, 3, 0, 2):
            for worker in pool._workers[:n_killed]:
                worker.process.kill()
                worker.process.join()
            rollout = collector.collect(policy, specs)
            assert rollout.workers_restarted == n_killed
            assert_same_trajectories(rollout.trajectories, expected)


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
        for column, other_column in zip(answer.columns, other.columns, strict=True):
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
