"""Both collectors: what they return, and that no fault, worker count or mode changes it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.policies.numpy_policy import NumpyPolicy
from tests.faulty_env import FAULTS, FaultyEnv, kill_process
from tests.patience import eventually
from tests.tiny_envs import CountingEnv, RaisingEnv, SleepyEnv
from workflow_rl.cage2.compiled.simulator import CompiledEnvs
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection import local_pool
from workflow_rl.collection import pool as pool_module
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.env_positions import first_positions, player_at
from workflow_rl.collection.failures import TooManyFailuresError, WorkerError
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.player import play_episode
from workflow_rl.collection.pool import MAX_RAISES, WorkerConnection
from workflow_rl.collection.pooled_envs import PooledEnvs, digests_after
from workflow_rl.collection.rollout import Rollout, in_order
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.environments.env_batch import SerialEnvs, Transitions
from workflow_rl.environments.episode import EpisodeSpec, episode_spec

Collector = Callable[..., Rollout]


def collect_async(make_env, policy, specs, n_workers=2, per_request=3, **pool_options) -> Rollout:
    with LocalPool(partial(SerialEnvs, make_env), n_workers, **pool_options) as pool:
        return AsyncCollector(pool, per_request).collect(policy, specs)


def collect_sync(make_env, policy, specs, n_workers=2, per_worker=2, **pool_options) -> Rollout:
    with LocalPool(partial(SerialEnvs, make_env), n_workers, per_worker, **pool_options) as pool:
        return SyncCollector(pool, n_workers * per_worker).collect(policy, specs)


COLLECTORS = [pytest.param(collect_async, id="async"), pytest.param(collect_sync, id="sync")]


@pytest.fixture(scope="module")
def expected(policy) -> list:
    env = SerialEnvs(CountingEnv, 1)
    return [play_episode(env, policy, episode_spec(3, number, RED_AGENTS)) for number in range(11)]


@pytest.mark.parametrize("collect", COLLECTORS)
def test_collectors_return_what_plain_episodes_are(
    collect: Collector, policy, specs, expected, same_trajectories
):
    rollout = collect(CountingEnv, policy, specs)
    same_trajectories(rollout.trajectories, expected)
    assert len({t.length for t in expected}) > 1, "the test needs episodes of different lengths"
    assert {t.terminated for t in expected} == {True, False}
    assert all(t.terminated != t.truncated for t in rollout.trajectories)
    assert all(t.policy_version == 4 for t in rollout.trajectories)
    assert rollout.env_steps == sum(t.length for t in expected)
    assert 0 < rollout.utilisation <= 1
    assert rollout.workers_restarted == 0


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(n_workers=st.integers(1, 7), size=st.integers(1, 5), n_episodes=st.integers(1, 11))
@pytest.mark.parametrize("collect", COLLECTORS)
def test_no_shape_changes_the_result(
    collect: Collector, policy, expected, same_trajectories, n_workers, size, n_episodes
):
    specs = [episode_spec(3, number, RED_AGENTS) for number in range(n_episodes)]
    rollout = collect(CountingEnv, policy, specs, n_workers, size)
    same_trajectories(rollout.trajectories, expected[:n_episodes])


def test_on_cyborg_synchronous_and_asynchronous_are_equal(policy, same_trajectories):
    specs = [episode_spec(1, number, RED_AGENTS) for number in range(5)]
    make_envs = Cage2(max_steps=12).make_envs
    with LocalPool(make_envs, 2) as pool:
        one = AsyncCollector(pool, 3).collect(policy, specs)
    with LocalPool(make_envs, 2, 2) as pool:
        other = SyncCollector(pool, 4).collect(policy, specs)
    same_trajectories(one.trajectories, other.trajectories)
    assert len({t.variant for t in one.trajectories}) > 1


class KilledOnce(CompiledEnvs):
    """Compiled envs whose worker is killed at a step, once."""

    def __init__(self, ticket: Path, at: int, n_envs: int) -> None:
        super().__init__(25, n_envs)
        self._ticket, self._steps_to_go = ticket, at

    def step(self, envs: Sequence[int], actions: np.ndarray) -> Transitions:
        self._steps_to_go -= 1
        if self._steps_to_go == 0:
            with suppress(FileExistsError):
                self._ticket.touch(exist_ok=False)
                kill_process()
        return super().step(envs, actions)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_compiled_blocks_are_played_again_after_a_worker_was_killed(
    mode, policy, same_trajectories, tmp_path
):
    specs = [episode_spec(1, number, RED_AGENTS) for number in range(13)]
    envs = Cage2(max_steps=25).make_envs(1)
    expected = [play_episode(envs, policy, spec) for spec in specs]
    with LocalPool(partial(KilledOnce, tmp_path / "1", 30), 2, 3) as pool:
        collector = SyncCollector(pool, 6) if mode == "sync" else AsyncCollector(pool, 5)
        rollout = collector.collect(policy, specs)
    same_trajectories(rollout.trajectories, expected)
    assert rollout.workers_restarted == 1
    assert 0 < rollout.utilisation <= 1


def test_another_seed_is_another_episode(policy):
    env = SerialEnvs(CountingEnv, 1)
    one = play_episode(env, policy, episode_spec(3, 0, RED_AGENTS))
    other = play_episode(env, policy, episode_spec(4, 0, RED_AGENTS))
    assert not np.array_equal(one.obs, other.obs)


def only_the_struck_must_hurry(ticket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker whose process the ticket names has a second for its answers. All others may be
    kept from a core for long."""
    overdue = WorkerConnection.overdue.fget
    assert overdue is not None

    def is_overdue(worker: Any) -> bool:
        if ticket.exists() and ticket.read_text() == str(worker.process.pid):
            worker.timeout = 1.0
        return overdue(worker)

    monkeypatch.setattr(WorkerConnection, "overdue", property(is_overdue))


@pytest.mark.usefixtures("exit_codes_are_known")
@pytest.mark.parametrize("method", ["create", "reset", "step"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("collect", COLLECTORS)
def test_a_worker_that_fails_changes_nothing(
    collect: Collector,
    fault,
    method,
    policy,
    specs,
    expected,
    tmp_path,
    same_trajectories,
    caplog,
    monkeypatch,
):
    make_env = partial(
        FaultyEnv, CountingEnv, fault, method, 1 if method == "create" else 3, [tmp_path / "1"]
    )
    if fault in ("hang", "stopped"):
        only_the_struck_must_hurry(tmp_path / "1", monkeypatch)
    rollout = collect(make_env, policy, specs)
    same_trajectories(rollout.trajectories, expected)
    (message,) = [record.getMessage() for record in caplog.records]
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
        assert "gave no complete answer for 1 s" in message
        assert "still running" in message


@pytest.mark.parametrize("collect", COLLECTORS)
def test_several_workers_may_fail(
    collect: Collector, policy, specs, expected, tmp_path, same_trajectories
):
    tickets = [tmp_path / str(number) for number in range(3)]
    make_env = partial(FaultyEnv, CountingEnv, "killed", "step", 4, tickets)
    rollout = collect(make_env, policy, specs, 3)
    same_trajectories(rollout.trajectories, expected)
    assert rollout.workers_restarted == 3


@pytest.mark.usefixtures("exit_codes_are_known")
@pytest.mark.parametrize("method", ["create", "step"])
@pytest.mark.parametrize("collect", COLLECTORS)
def test_failures_without_end_stop_the_collection(
    collect: Collector, method, policy, specs, tmp_path
):
    tickets = [tmp_path / str(number) for number in range(100)]
    make_env = partial(FaultyEnv, CountingEnv, "exception", method, 1, tickets)
    with pytest.raises(TooManyFailuresError, match="at most 4 may") as caught:
        collect(make_env, policy, specs, max_failures=4)
    assert "ArithmeticError: the injected fault" in str(caught.value)
    assert isinstance(caught.value.__cause__, WorkerError)
    assert caught.value.__cause__.exitcode == 1


@pytest.mark.parametrize("method", ["reset", "step"])
@pytest.mark.parametrize("collect", COLLECTORS)
def test_an_episode_that_always_raises_is_left_out(
    collect: Collector, method, policy, specs, expected, same_trajectories, caplog
):
    """It counts as one failure, however often it was tried."""
    broken = (specs[2], specs[7])
    make_env = partial(RaisingEnv, frozenset(spec.env_seed for spec in broken), method)
    rollout = collect(make_env, policy, specs, max_failures=2)
    same_trajectories(rollout.trajectories, [t for t in expected if t.episode not in (2, 7)])
    assert sorted(rollout.skipped) == [2, 7]
    assert rollout.episodes == len(specs)
    assert rollout.workers_restarted == 2 * MAX_RAISES
    for number in (2, 7):
        assert f"episode {number} is left out: " in caplog.text


@pytest.mark.parametrize("collect", COLLECTORS)
def test_an_exception_is_shown_once_with_the_place_in_the_user_s_code(
    collect: Collector, policy, specs, caplog
):
    """However many episodes raise it, and however often."""
    broken = frozenset(spec.env_seed for spec in specs[2:4])
    collect(partial(RaisingEnv, broken), policy, specs)
    assert caplog.text.count("Traceback") == 1
    assert 'raise ArithmeticError(f"no second step' in caplog.text
    assert "pooled_envs.py" not in caplog.text
    assert "worker.py" not in caplog.text
    for number in (2, 3):
        (line,) = [r.getMessage() for r in caplog.records if f"in episode {number} " in r.message]
        assert "raised ArithmeticError: no second step" in line
        assert "tiny_envs.py, line " in line
        assert "exit code: 1" in line


@pytest.mark.parametrize("collect", COLLECTORS)
def test_a_batch_of_nothing_but_broken_episodes_stops_the_collection(
    collect: Collector, policy, specs
):
    make_env = partial(RaisingEnv, frozenset(spec.env_seed for spec in specs))
    with pytest.raises(TooManyFailuresError, match="all 2 episodes of a batch raise exceptions"):
        collect(make_env, policy, specs[:2])


@pytest.mark.parametrize("collect", COLLECTORS)
def test_an_episode_that_raises_twice_is_played_in_the_end(
    collect: Collector, policy, specs, expected, tmp_path, same_trajectories
):
    tickets = [tmp_path / str(number) for number in range(MAX_RAISES - 1)]
    make_env = partial(FaultyEnv, CountingEnv, "exception", "reset", 1, tickets)
    rollout = collect(make_env, policy, specs, n_workers=1)
    same_trajectories(rollout.trajectories, expected)
    assert rollout.workers_restarted == MAX_RAISES - 1


@pytest.mark.parametrize("method", ["reset", "step"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_env_that_goes_on_leaves_an_episode_out(mode, method, policy, same_trajectories, caplog):
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
        same_trajectories(rollout.trajectories, in_order(played))
    assert rollouts[-1].positions[1].skipped == (11,)


def test_free_run_counts_episodes(policy):
    specs: list[EpisodeSpec] = [episode_spec(0, number, ("SleepAgent",)) for number in range(3)]
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        counts = AsyncCollector(pool).free_run(policy, specs, seconds=0.2)
    assert len(counts) == 2
    for count in counts:
        assert count.seconds >= 0.2
        assert count.episodes >= 1
        assert count.env_steps >= count.episodes


def test_evaluation_seeds_are_not_training_seeds(policy):
    from workflow_rl.environments.episode import SeedStream

    streams = [episode_spec(0, 0, ("SleepAgent",), stream) for stream in SeedStream]
    assert len({spec.env_seed for spec in streams}) == len(streams)


def test_greedy_policy_travels_to_the_workers(policy, specs):
    greedy = NumpyPolicy(policy.parameters, greedy=True)
    rollout = collect_async(CountingEnv, greedy, specs)
    for trajectory in rollout.trajectories:
        assert np.array_equal(trajectory.action, policy.outputs(trajectory.obs).argmax(axis=1))


@contextmanager
def stopped(pid: int, until: Callable[[], bool]) -> Iterator[None]:
    """A process that stands still until something is so; if it never is, for some seconds."""

    def go_on() -> None:
        with suppress(AssertionError):
            eventually(until, 20)
        os.kill(pid, signal.SIGCONT)

    os.kill(pid, signal.SIGSTOP)
    waiting = threading.Thread(target=go_on)
    waiting.start()
    try:
        yield
    finally:
        waiting.join()


def test_idle_workers_begin_with_what_follows(policy, same_trajectories):
    """One episode of the first collection is held up; meanwhile the rest of it and the following
    one are played, an evaluation comes in between, a worker is killed, and nothing is lost."""
    first, second, other = (
        [episode_spec(seed, number, RED_AGENTS) for number in range(6)] for seed in (3, 4, 5)
    )
    plain = SerialEnvs(CountingEnv, 1)
    expected = [
        [play_episode(plain, policy, spec) for spec in specs] for specs in (first, second, other)
    ]
    later = NumpyPolicy(policy.parameters, policy_version=5)
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        collector = AsyncCollector(pool)

        def are_played_ahead() -> bool:
            return collector._ahead is not None and len(collector._ahead.trajectories) >= 5

        with stopped(pool._workers[0].process.pid, are_played_ahead):
            one = collector.collect(policy, first, lambda: (later, second))
        assert are_played_ahead(), "the other worker had nothing else to do"
        evaluated = collector.collect(policy, other)
        pool._workers[1].process.kill()
        two = collector.collect(later, second)
    same_trajectories(one.trajectories, expected[0])
    same_trajectories(evaluated.trajectories, expected[2])
    same_trajectories(
        [t._replace(policy_version=4) for t in two.trajectories],
        expected[1],
    )
    assert {t.policy_version for t in two.trajectories} == {5}


def test_a_batch_is_returned_when_it_is_complete_whatever_follows(policy):
    specs = [episode_spec(3, number, RED_AGENTS) for number in range(4)]
    following = [episode_spec(4, number, RED_AGENTS) for number in range(50_000)]
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        collector = AsyncCollector(pool)
        with stopped(pool._workers[0].process.pid, lambda: collector._ahead is not None):
            rollout = collector.collect(policy, specs, lambda: (policy, following))
        assert len(rollout.trajectories) == 4
        assert collector._ahead is not None
        assert len(collector._ahead.trajectories) < len(following)


@pytest.mark.parametrize("collector_of", [AsyncCollector, partial(SyncCollector, n_envs=2)])
def test_restarts_are_those_of_the_collection(collector_of, policy, specs):
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        collector = collector_of(pool)
        for n_killed in (1, 2, 0, 1):
            for worker in pool._workers[:n_killed]:
                worker.process.kill()
                worker.process.join()
            assert collector.collect(policy, specs).workers_restarted == n_killed


def test_what_follows_is_dropped_if_something_else_does(policy, specs, expected, same_trajectories):
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        collector = AsyncCollector(pool)
        elsewhere = [episode_spec(9, number, RED_AGENTS) for number in range(4)]
        collector.collect(policy, specs, lambda: (policy, elsewhere))
        same_trajectories(collector.collect(policy, specs).trajectories, expected)


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


class TickingEnv(SleepyEnv):
    """Each of its steps makes a file a byte longer."""

    def __init__(self, clock: Path, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._clock = clock

    def step(self, action: int) -> Any:
        answer = super().step(action)
        with self._clock.open("ab") as file:
            file.write(b".")
        return answer


@pytest.fixture
def clock(monkeypatch, tmp_path) -> Path:
    """The steps of TickingEnvs are the seconds by which workers are judged, without any grace: one
    that is kept from a core loses no time."""
    clock = tmp_path / "clock"
    clock.touch()
    in_steps = SimpleNamespace(monotonic=lambda: clock.stat().st_size)
    monkeypatch.setattr(pool_module, "time", in_steps)
    monkeypatch.setattr(local_pool, "time", in_steps)
    monkeypatch.setattr(local_pool, "GRACE_SECONDS", 0.0)
    return clock


def test_replaying_long_episodes_takes_no_worker_for_one_that_hangs(caplog, clock):
    """Forty steps are to be replayed, and every answer must come within thirty."""
    slow = partial(TickingEnv, clock, 0.02, 0.0, 20, 20)
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


def test_restoring_unrolls_takes_no_worker_for_one_that_hangs(policy, same_trajectories, clock):
    """Forty steps are to be replayed, and every answer must come within thirty."""
    rollouts = []
    slow = partial(TickingEnv, clock, 0.03, 0.0, 30, 30)
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
    same_trajectories(*rollouts)


def test_digests_tell_orders_apart():
    """Activity on one host and then on another is not that on a third one twice."""

    def digest(hosts: list[int]) -> int:
        digests = np.zeros(1, np.uint64)
        for host in hosts:
            obs = np.zeros((1, 52), np.uint8)
            obs[0, 4 * host] = 1
            nothing = np.zeros(1)
            answers = Transitions(obs, nothing, nothing.astype(bool), nothing.astype(bool))
            digests = digests_after(digests, answers)
        return int(digests[0])

    pairs = [[first, second] for first in range(13) for second in range(13)]
    assert len({digest(pair) for pair in pairs}) == len(pairs)
