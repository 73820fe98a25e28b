"""No fault of workers or environments changes what collectors return, nor is any passed over."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faulty_env import FAULTS, FaultyEnv, kill_process
from tests.tiny_envs import CountingEnv, RaisingEnv
from tests.workflow_rl.collection.collectors import COLLECTORS
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator, CompiledEnvs
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.env_positions import first_positions
from workflow_rl.collection.failures import TooManyFailuresError, WorkerError
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.player import play_episode, player_at
from workflow_rl.collection.pool import MAX_RAISES, WorkerConnection
from workflow_rl.collection.rollout import in_order
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.environments.env_batch import SerialEnvs, StepAnswers
from workflow_rl.environments.episode import episode_spec


class KilledOnce(CompiledEnvs):
    """Compiled envs whose worker is killed at a step, once."""

    def __init__(self, ticket: Path, at: int, n_envs: int) -> None:
        super().__init__(BatchedSimulator(n_envs, 25), 25)
        self._ticket, self._steps_to_go = ticket, at

    def step(self, envs: Sequence[int], actions: np.ndarray) -> StepAnswers:
        self._steps_to_go -= 1
        if self._steps_to_go == 0:
            with suppress(FileExistsError):
                self._ticket.touch(exist_ok=False)
                kill_process()
        return super().step(envs, actions)


@pytest.mark.system
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_compiled_blocks_are_played_again_after_a_worker_was_killed(mode, policy, tmp_path):
    specs = [episode_spec(1, number, RED_AGENTS) for number in range(13)]
    envs = Cage2(max_steps=25).make_envs(1)
    expected = [play_episode(envs, policy, spec) for spec in specs]
    with LocalPool(partial(KilledOnce, tmp_path / "1", 30), 2, 3) as pool:
        collector = SyncCollector(pool, 6) if mode == "sync" else AsyncCollector(pool, 5)
        rollout = collector.collect(policy, specs)
    assert_same_trajectories(rollout.trajectories, expected)
    assert rollout.workers_restarted == 1
    assert 0 < rollout.utilisation <= 1


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
    collect,
    fault,
    method,
    policy,
    specs,
    expected,
    tmp_path,
    caplog,
    monkeypatch,
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
    """However many episodes raise it, and however often."""
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
