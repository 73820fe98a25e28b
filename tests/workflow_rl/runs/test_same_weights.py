"""A run ends with the same weights whatever happens on the way: for any workers, in both modes,
when workers die, and when the run is stopped and goes on."""

import functools
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from examples import ordered_visits
from tests.any_envs import MaskedPuzzleEnv, PuzzleEnv
from tests.faulty_env import FaultyEnv
from tests.patience import eventually
from tests.processes import survivors, workers_of
from tests.tiny_runs import (
    assert_nothing_missing,
    assert_one_episode_each,
    lags,
    plain,
    recorded_updates,
    run,
    same_weights,
    stop_before,
)
from tests.tiny_teams import deadly
from tests.workflow_rl.runs.preset_runs import faulty_envs
from tests.workflow_rl.runs.small_runs import COMPILED, ENVS, config_of
from workflow_rl.collection.messages import StopRequested, TooManyFailuresError
from workflow_rl.runs import learner
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import is_finished, read_metrics
from workflow_rl.runs.read_checkpoint import load_checkpoint

COUNTING = ("unrolls", "lagged", "lagged unrolls", "lag 3", "lag 3 unrolls")


def nothing(path: Path, config: TrainConfig) -> None:
    run(path, config)


def killed(path: Path, config: TrainConfig) -> None:
    """Workers are, between collections: one, the other, both."""
    pids = set()

    def kill(pool: Any, policy: Any, count: int) -> None:
        for number in {0: [0], 1: [1], 2: [0, 1]}.get(count, []):
            pids.add(pool._workers[number].process.pid)
            pool._workers[number].process.kill()

    summary = run(path, config, kill)
    assert summary["workers_restarted"] == len(pids) >= 3


def dies(path: Path, config: TrainConfig) -> None:
    """A worker does, in the middle of an episode, whose actions are taken again."""
    envs: dict[str, Callable[[], Any]] = {
        "tests.any_envs:PuzzleEnv": PuzzleEnv,
        "tests.any_envs:MaskedPuzzleEnv": MaskedPuzzleEnv,
        "examples.ordered_visits:make": ordered_visits.make,
    }

    def make_env() -> FaultyEnv:
        return FaultyEnv(envs[config.env], "killed", "step", 25, [path.with_name("ticket")])

    faulty = make_env if config.env in envs else deadly(path.parent)
    summary = run(path, config.changed(make_env=faulty))
    assert summary["workers_restarted"] == 1


def stopped(path: Path, config: TrainConfig, at: int) -> None:
    """Before the collection of this number."""
    with pytest.raises(StopRequested):
        run(path, config, stop_before(at))
    assert load_checkpoint(path / "checkpoint.safetensors").training.updates <= at
    assert not is_finished(path)
    run(path, config)


def stopping_at(at: int, kills: bool = False) -> Any:
    """Sends the run a signal before the collection of this number. kills: a worker before, too."""

    def stop(pool: Any, policy: Any, count: int) -> None:
        if count == 1 and kills:
            pool._workers[1].process.kill()
        if count == at:
            os.kill(os.getpid(), signal.SIGINT)
            eventually(lambda: pool.stop_signal is not None)

    return stop


def stopped_again_and_again(path: Path, config: TrainConfig) -> None:
    """At once; right after it was resumed; in its first batches; later, with workers killed."""
    config = config.changed(checkpoint_every=100)
    for at in (0, 0, 2, 0, 2 + config.async_rl * config.num_batches_to_accumulate):
        with pytest.raises(StopRequested, match="SIGINT"):
            run(path, config, stopping_at(at, kills=True))
    assert load_checkpoint(path / "checkpoint.safetensors").training.updates >= 2
    run(path, config)
    assert is_finished(path)


def vanished(path: Path, config: TrainConfig) -> None:
    """What it saves before its first batch has to be as good as what it was resumed from."""
    with pytest.raises(StopRequested):
        run(path, config, stopping_at(4))

    def vanish(pool: Any, policy: Any, count: int) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        run(path, config, vanish)
    run(path, config)


def failing(path: Path, config: TrainConfig) -> None:
    """Too often. The learner is told, and a checkpoint is left to go on from."""
    config = config.changed(max_worker_failures=1)
    with pytest.raises(TooManyFailuresError, match="ArithmeticError: the injected fault"):
        run(path, config, make_envs=faulty_envs(path.parent, 9, "exception", 18))
    assert not survivors(workers_of(), 30)
    run(path, config)


def evaluated(path: Path, config: TrainConfig) -> None:
    """Which changes nothing, and chooses the best."""
    run(path, config.changed(eval_every=2, eval_episodes=7))
    scores = [row["eval_return_mean"] for row in read_metrics(path)]
    assert [score == score for score in scores[:4]] == [False, True, False, True]
    best = load_checkpoint(path / "best.safetensors").training
    assert best.best_score == max(score for score in scores if score == score)


def with_other(**changes: Any) -> Callable[[Path, TrainConfig], None]:
    return lambda path, config: nothing(path, config.changed(**changes))


HAPPENS: dict[str, Callable[[Path, TrainConfig], None]] = {
    "nothing": nothing,
    "killed": killed,
    "dies": dies,
    **{f"stopped {at}": functools.partial(stopped, at=at) for at in range(4)},
    "stopped again and again": stopped_again_and_again,
    "vanished": vanished,
    "failing": failing,
    "evaluated": evaluated,
    "two learner threads": with_other(learner_threads=2),
    "7 envs": with_other(n_envs=7, n_workers=7),
    "mask in obs": with_other(env_args={"in_obs": True}),
    "actions by name": with_other(env="tests.any_envs:NamedPuzzleEnv"),
    "compiled": with_other(env_args=COMPILED),
}
ROWS = [
    ("CartPole", "episodes", "async", 1, "nothing"),
    ("CartPole", "episodes", "sync", 2, "nothing"),
    ("CartPole", "unrolls", "sync", 5, "nothing"),
    ("CartPole", "episodes", "async", 2, "killed"),
    ("CartPole", "episodes", "async", 2, "stopped 0"),
    ("Pendulum", "episodes", "async", 5, "nothing"),
    ("Pendulum", "lagged", "sync", 3, "nothing"),
    ("Pendulum", "lagged unrolls", "async", 5, "nothing"),
    ("Pendulum", "lagged unrolls", "async", 2, "killed"),
    ("Pendulum", "unrolls", "async", 2, "stopped 2"),
    ("Pendulum", "lagged", "sync", 2, "stopped 1"),
    ("Pendulum", "lagged unrolls", "async", 2, "stopped 3"),
    ("Puzzle", "episodes", "async", 1, "nothing"),
    ("Puzzle", "episodes", "sync", 2, "nothing"),
    ("Puzzle", "lagged", "async", 5, "nothing"),
    ("Puzzle", "unrolls", "async", 1, "nothing"),
    ("Puzzle", "lagged", "sync", 2, "killed"),
    ("Puzzle", "episodes", "async", 2, "dies"),
    ("Puzzle", "episodes", "sync", 2, "dies"),
    ("Puzzle", "unrolls", "async", 2, "dies"),
    ("Puzzle", "lagged", "async", 2, "stopped 3"),
    ("own", "episodes", "sync", 1, "two learner threads"),
    ("own", "lagged unrolls", "sync", 2, "nothing"),
    ("own", "lagged unrolls", "async", 2, "dies"),
    ("own", "lagged unrolls", "async", 2, "stopped 1"),
    ("own of a team", "lagged", "async", 5, "two learner threads"),
    ("own of a team", "lagged", "async", 2, "dies"),
    ("own of a team", "lagged", "async", 2, "stopped 1"),
    ("budgets", "episodes", "sync", 1, "nothing"),
    ("budgets", "episodes", "async", 5, "nothing"),
    ("budgets", "episodes", "async", 2, "two learner threads"),
    ("budgets", "episodes", "async", 2, "stopped 2"),
    ("budgets", "unrolls", "sync", 5, "nothing"),
    ("budgets", "unrolls", "sync", 2, "killed"),
    ("budgets", "unrolls", "async", 1, "stopped 2"),
    ("budgets", "lagged unrolls", "async", 2, "killed"),
    ("budgets of a team", "episodes", "sync", 5, "nothing"),
    ("budgets of a team", "lagged", "async", 1, "stopped 1"),
    ("CAGE-2 within a budget", "episodes", "sync", 1, "nothing"),
    ("CAGE-2 within a budget", "episodes", "async", 5, "nothing"),
    ("CAGE-2 within a budget", "episodes", "async", 2, "killed"),
    ("CAGE-2 within a budget", "episodes", "async", 2, "stopped 2"),
    ("CAGE-2 within a budget", "episodes", "sync", 2, "stopped 2"),
    ("CAGE-4 within a budget", "episodes", "sync", 2, "nothing"),
    ("CAGE-4 within a budget", "episodes", "async", 5, "killed"),
    ("CAGE-4 within a budget", "episodes", "async", 1, "stopped 1"),
    ("mlp", "episodes", "async", 1, "actions by name"),
    ("mlp", "episodes", "sync", 2, "actions by name"),
    ("told an order", "episodes", "sync", 2, "dies"),
    ("told an order", "episodes", "async", 1, "stopped 1"),
    ("other reward", "unrolls", "sync", 5, "nothing"),
    ("curriculum", "episodes", "sync", 2, "stopped 3"),
    ("curriculum", "lagged", "async", 1, "stopped 3"),
    ("curriculum", "unrolls", "sync", 1, "stopped 3"),
    ("curriculum", "unrolls", "async", 3, "stopped 3"),
    ("Counting", "lagged", "async", 2, "failing"),
    ("CAGE-2", "episodes", "async", 1, "nothing"),
    ("CAGE-2", "episodes", "async", 1, "7 envs"),
    ("CAGE-2", "episodes", "sync", 2, "nothing"),
    ("CAGE-2", "episodes", "async", 2, "compiled"),
    ("CAGE-2", "episodes", "async", 2, "evaluated"),
    ("CAGE-2", "episodes", "sync", 2, "stopped 1"),
    ("CAGE-2", "episodes", "async", 2, "stopped 3"),
]
OF_NETWORKS = [
    ("mlp", "episodes", "sync", 5, "nothing"),
    ("gru", "episodes", "async", 5, "nothing"),
    ("gru", "unrolls", "sync", 5, "nothing"),
    ("gru", "lagged unrolls", "async", 1, "nothing"),
    ("gru", "episodes", "async", 2, "mask in obs"),
    ("gru", "episodes", "async", 2, "dies"),
    ("gru", "unrolls", "sync", 2, "dies"),
    ("gru", "episodes", "async", 2, "stopped 2"),
    ("gru", "unrolls", "async", 2, "stopped 2"),
    ("gru", "lagged unrolls", "async", 2, "stopped 2"),
    ("lstm", "lagged", "sync", 1, "nothing"),
    ("lstm", "unrolls", "async", 5, "nothing"),
    ("lstm", "unrolls", "async", 2, "dies"),
    ("frame-stack", "episodes", "sync", 5, "nothing"),
    ("frame-stack", "unrolls", "async", 1, "nothing"),
    ("frame-stack", "unrolls", "async", 2, "dies"),
    ("entities", "episodes", "sync", 5, "nothing"),
    ("entities", "lagged unrolls", "async", 1, "nothing"),
    ("entities", "episodes", "async", 2, "dies"),
    ("central critic", "episodes", "async", 5, "dies"),
    ("central critic", "episodes", "sync", 2, "stopped 2"),
    ("V-trace of a team", "lagged", "async", 5, "dies"),
    ("V-trace of a team", "lagged", "sync", 2, "dies"),
    ("V-trace of a team", "lagged", "async", 2, "stopped 2"),
    ("team on entities", "episodes", "sync", 2, "nothing"),
    ("team on entities", "episodes", "async", 1, "stopped 1"),
    ("team on entities", "lagged", "sync", 2, "nothing"),
    ("team on entities", "lagged", "async", 1, "stopped 1"),
    *itertools.product(
        ("channels last", "channels beside"),
        ("episodes", "unrolls", "lagged unrolls"),
        ("sync",),
        (1,),
        ("nothing", "stopped 2"),
    ),
]
OF_LAGS = [
    *itertools.product(["Counting"], COUNTING, ["async"], [5], ["nothing"]),
    *itertools.product(["Counting"], COUNTING, ["sync"], [2], ["nothing", "killed"]),
    *itertools.product(["Counting"], COUNTING, ["async"], [2], ["killed", "evaluated"]),
    *itertools.product(["Counting"], COUNTING, ["async", "sync"], [2], ["stopped again and again"]),
    ("Counting", "lagged", "async", 2, "vanished"),
    ("Counting", "lag 3 unrolls", "async", 2, "vanished"),
    ("Counting", "lagged", "sync", 2, "failing"),
    ("Counting", "lag 3 unrolls", "async", 2, "failing"),
    ("Counting", "lag 3 unrolls", "sync", 2, "failing"),
]


def system(row: Any) -> Any:
    return pytest.param(*row, marks=pytest.mark.system)


@pytest.mark.parametrize(
    ("what", "kind", "mode", "n_workers", "happens"),
    [*ROWS, *map(system, OF_NETWORKS), *map(system, OF_LAGS)],
)
def test_a_run_ends_as_an_undisturbed_one(
    what, kind, mode, n_workers, happens, undisturbed, tmp_path
):
    path, expected = tmp_path / "run", undisturbed(what, kind)
    HAPPENS[happens](path, config_of(what, kind, mode, n_workers=n_workers))
    assert same_weights(path, expected)
    states = [load_checkpoint(at / "checkpoint.safetensors") for at in (path, expected)]
    one, other = ([plain(at.agent.get("budgets")), at.training.recent_costs] for at in states)
    assert one == other
    rows, expected_rows = read_metrics(path), read_metrics(expected)
    for column in ("update", "episodes", "env_steps"):
        assert [row[column] for row in rows] == [row[column] for row in expected_rows]


@pytest.mark.parametrize("what", [*ENVS, "CAGE-2"])
def test_every_setting_that_is_to_change_the_weights_does(what, undisturbed, tmp_path):
    before = learner.make_agent(config_of(what)).network.state_dict()
    after = load_checkpoint(undisturbed(what) / "checkpoint.safetensors").agent["network"]
    assert not any(torch.equal(before[name], after[name]) for name in after)
    run(tmp_path / "another seed", config_of(what, seed=4))
    assert not same_weights(tmp_path / "another seed", undisturbed(what))
    if what != "CAGE-2":
        assert not same_weights(undisturbed(what), undisturbed(what, "lagged"))


def lag_of(kind: str) -> int:
    return {"unrolls": 0, "lagged": 1, "lagged unrolls": 1}.get(kind, 3)


@pytest.mark.system
@pytest.mark.parametrize("kind", COUNTING)
def test_a_lag_is_exact_and_nothing_is_missing(kind, undisturbed, tmp_path):
    with recorded_updates() as updates:
        run(tmp_path, config_of("Counting", kind, n_workers=1))
    assert same_weights(tmp_path, undisturbed("Counting", kind))
    for without in {"lagged": ["episodes"], "lagged unrolls": ["unrolls"]}.get(kind, []):
        assert not same_weights(tmp_path, undisturbed("Counting", without))
    assert lags(updates) == [{min(n, lag_of(kind))} for n in range(len(updates))]
    assert len(updates) > lag_of(kind) + 1
    for row, (version, learned) in zip(read_metrics(tmp_path), updates, strict=True):
        lag = {version - trajectory.policy_version for trajectory in learned}
        assert {row["policy_lag_min"], row["policy_lag_mean"], row["policy_lag_max"]} == lag
        assert row["dropped_steps"] == 0
        assert row["queue_length"] <= lag_of(kind)
    learned = [trajectory for _, trajectories in updates for trajectory in trajectories]
    assert_one_episode_each(learned)
    assert_nothing_missing(learned, 5)
    if "unrolls" in kind:
        expected = config_of("Counting", kind).steps_per_update
        assert {sum(t.length for t in some) for _, some in updates} == {expected}


@pytest.mark.system
@pytest.mark.parametrize("kind", ["lagged", "lagged unrolls"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_whose_workers_hang_is_stopped_within_seconds(kind, mode, tmp_path):
    path, stopped_at = tmp_path / "run", []

    def stop() -> None:
        stopped_at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    def stop_later(pool, policy, count):
        if count == 0:
            threading.Timer(0.5, stop).start()

    with pytest.raises(StopRequested, match="SIGTERM"):
        run(
            path,
            config_of("Counting", kind, mode),
            stop_later,
            faulty_envs(path.parent, 2, "hang", 12),
        )
    assert time.monotonic() - stopped_at[0] < 30  # Half of what workers have for an answer.
    assert not survivors(workers_of(), 30)
    assert (path / "checkpoint.safetensors").exists()


@pytest.mark.system
@pytest.mark.parametrize("kind", ["lagged", "lagged unrolls"])
def test_an_error_of_the_learner_ends_the_run_and_its_workers(kind, tmp_path):
    def fail() -> None:
        raise ZeroDivisionError("in the update")

    with recorded_updates(fail), pytest.raises(ZeroDivisionError, match="in the update"):
        run(tmp_path, config_of("Counting", kind))
    assert not survivors(workers_of(), 30)


def test_what_a_stopped_run_had_begun_is_kept_with_it(tmp_path):
    """How many episodes a batch has, and of which policy, follows from when it was begun."""
    with pytest.raises(StopRequested):
        run(tmp_path / "run", config_of(kind="lagged"), stop_before(3))
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    updates, episode = checkpoint.training.updates, checkpoint.training.episodes
    assert checkpoint.begun
    for batch, version in zip(checkpoint.begun, itertools.count(updates - 1), strict=False):
        assert batch.policy.policy_version == version
        assert batch.policy.parameters.obs_mean is not None
        assert batch.policy.distribution.n_draws == 2
        assert batch.share.first_episode == episode
        episode = batch.share.end
