import json
import os
import signal
import time
from array import array
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from tests.cli import call, refused, said_by
from tests.faulty_env import FaultyEnv
from tests.tiny_envs import CountingEnv, SleepyEnv
from tests.tiny_runs import recorded_updates, same_weights
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.agents.ppo.agent import PPOConfig
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command, Request
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.collection.trace import LEARNER, Activity, Trace, unpacked_marks
from workflow_rl.collection.worker import SENT_EVERY, Worker, WorkerMarks
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.loop import train_policy

BUSY = {"stepping", "acting", "playing", "resetting"}


def at(microseconds: float, activity: Activity) -> int:
    return round(microseconds * 1000) << 4 | activity


def rows_of(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The complete events of each named row, in the file's order, once the format is checked."""
    trace = json.loads(path.read_text())
    names = {}
    rows: dict[int, list[dict[str, Any]]] = {}
    for event in trace["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names[event["tid"]] = event["args"]["name"]
                rows[event["tid"]] = []
            continue
        assert event["ph"] == "X"
        assert event["name"].upper() in Activity.__members__
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        rows[event["tid"]].append(event)
    for events in rows.values():
        for event, following in pairwise(events):
            # To a nanosecond: the sum of two decimals is rounded.
            assert event["ts"] + event["dur"] <= following["ts"] + 1e-3
    return {names[tid]: events for tid, events in rows.items()}


def test_a_span_lasts_from_one_mark_to_the_next(tmp_path):
    with Trace(tmp_path / "trace.json", {"mode": "sync"}) as trace:
        trace.extend("worker-10", [at(1000.5, Activity.WAITING), at(1002, Activity.IDLE)])
        trace.extend("worker-2", [at(1003, Activity.STEPPING), at(1004.25, Activity.SENDING)])
        trace.extend("worker-10", [at(1005, Activity.STEPPING), at(1006, Activity.SENDING)])
        # What a dead worker did last does not last until its replacement starts.
        trace.extend("worker-2", [at(1050.5, Activity.STARTING), at(1060.5, Activity.WAITING)])
        trace.extend(LEARNER, [at(1001, Activity.LEARNING), at(1002.001, Activity.WAITING)])
    rows = rows_of(tmp_path / "trace.json")
    assert list(rows) == ["learner", "worker-2", "worker-10"]
    spans = {row: [(e["name"], e["ts"], e["dur"]) for e in events] for row, events in rows.items()}
    assert spans == {
        "learner": [("learning", 0.5, 1.001)],
        "worker-2": [("stepping", 2.5, 1.25), ("starting", 50, 10)],
        "worker-10": [("waiting", 0, 1.5), ("stepping", 4.5, 1)],
    }
    assert json.loads((tmp_path / "trace.json").read_text())["otherData"] == {"mode": "sync"}


def test_a_full_trace_ends_early_and_says_so(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("workflow_rl.collection.trace.MAX_SPANS", 10)
    with Trace(tmp_path / "trace.json") as trace:
        for step in range(100):
            trace.extend("worker-0", [at(step, Activity.STEPPING)])
    assert len(rows_of(tmp_path / "trace.json")["worker-0"]) == 9
    assert "the end of the run is not in" in caplog.text


def test_a_trace_without_a_file_keeps_nothing():
    with Trace() as trace:
        trace.mark(LEARNER, Activity.LEARNING)
        assert trace.take_marks("worker-0", "answer") == "answer"
    assert json.loads(trace.to_json())["traceEvents"] == [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "workflow_rl"}}
    ]


def test_an_exception_leaves_a_whole_file(tmp_path):
    with suppress(KeyboardInterrupt), Trace(tmp_path / "trace.json") as trace:
        trace.extend("worker-0", [at(1, Activity.STEPPING), at(2, Activity.SENDING)])
        raise KeyboardInterrupt
    assert len(rows_of(tmp_path / "trace.json")["worker-0"]) == 1


def test_a_file_that_cannot_be_written_any_more_does_not_fail_the_run(tmp_path, caplog):
    with Trace(tmp_path / "gone" / "trace.json") as trace:
        trace.mark(LEARNER, Activity.LEARNING)
    assert "could not be written" in caplog.text


def test_marks_go_along_when_they_are_due_each_once(monkeypatch):
    times = iter([5, SENT_EVERY + 4, SENT_EVERY + 5, SENT_EVERY + 6, 2 * SENT_EVERY + 5])
    clock = SimpleNamespace(perf_counter_ns=lambda: next(times))
    monkeypatch.setattr("workflow_rl.collection.worker.time", clock)
    marks, sent = WorkerMarks(), []
    for _ in range(5):
        match marks.along("answer"):
            case "answer", taken:
                sent.append([mark >> 4 for mark in array("q", taken)])
    assert sent == [[5], [SENT_EVERY + 4, SENT_EVERY + 5], [SENT_EVERY + 6, 2 * SENT_EVERY + 5]]


def test_a_worker_that_acts_marks_its_resets_and_messages(policy, specs):
    trace, worker = Trace(Path("of no file")), Worker(1, traced=True)
    make_envs = cloudpickle.dumps(partial(SerialEnvs, partial(CountingEnv, 3, 3)))
    for request in (
        Request(Command.START, make_envs),
        Request(Command.LOAD_ACTOR, cloudpickle.dumps(policy)),
        Request(Command.PLAY, specs[:2]),
        Request(Command.CLOSE),
    ):
        for message in worker.messages(request):
            trace.take_marks("worker-0", message)
    done = [unpacked_marks(mark)[1].name for mark in trace._rows["worker-0"]]
    episode = ["RESETTING", "PLAYING", "SENDING", "PLAYING"]
    assert done == [
        *("STARTING", "SENDING", "WAITING", "LOADING", "WAITING"),
        *(*episode, *episode, "WAITING", "IDLE"),
    ]


@pytest.mark.usefixtures("last_marks_arrive")
@pytest.mark.parametrize("collector", [SyncCollector, AsyncCollector])
def test_what_a_worker_does_is_its_busy_seconds(collector, specs, policy, tmp_path):
    make_envs = partial(SerialEnvs, partial(SleepyEnv, 0.01, 0.02))
    trace = Trace(tmp_path / "trace.json")
    start = time.perf_counter()
    with trace, LocalPool(make_envs, 2, trace=trace) as pool:
        collecting = SyncCollector(pool, 2) if collector is SyncCollector else AsyncCollector(pool)
        begun = time.perf_counter()
        rollout = collecting.collect(policy, specs)
        ended = time.perf_counter()
    rows = rows_of(tmp_path / "trace.json")
    assert rows.keys() == {"collector", "worker-0", "worker-1"}
    workers = [event for row in ("worker-0", "worker-1") for event in rows[row]]
    busy = sum(event["dur"] for event in workers if event["name"] in BUSY) / 1e6
    assert busy == pytest.approx(rollout.busy_seconds, rel=0.2)
    # The worst that can be slept is known, whatever the machine.
    steps = sum(trajectory.length for trajectory in rollout.trajectories)
    assert busy >= 0.01 * steps + 0.02 * len(specs)
    for row in ("worker-0", "worker-1"):
        names = {event["name"] for event in rows[row]}
        stepping = "playing" if collector is AsyncCollector else "stepping"
        assert {"starting", "resetting", stepping, "sending", "waiting"} <= names
        assert len(names & {"playing", "stepping"}) == 1
        # Nothing of the time is left out, and all processes share a clock.
        covered = sum(event["dur"] for event in rows[row]) / 1e6
        assert covered <= ended - start
        assert covered >= ended - begun


@pytest.mark.usefixtures("last_marks_arrive")
@pytest.mark.parametrize("fault", ["exception", "killed"])
def test_a_crash_loses_only_what_was_not_sent(fault, specs, policy, tmp_path):
    make_env = partial(FaultyEnv, CountingEnv, fault, "step", 20, [tmp_path / "ticket"])
    trace = Trace(tmp_path / "trace.json")
    with trace, LocalPool(partial(SerialEnvs, make_env), 2, trace=trace) as pool:
        rollout = AsyncCollector(pool).collect(policy, specs)
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        assert_same_trajectories(
            rollout.trajectories, AsyncCollector(pool).collect(policy, specs).trajectories
        )
    rows = rows_of(tmp_path / "trace.json")
    workers = [rows["worker-0"], rows["worker-1"]]
    starts = [[event["name"] for event in events].count("starting") for events in workers]
    assert sorted(starts) == [1, 2]
    resets = sum(event["name"] == "resetting" for events in workers for event in events)
    # One episode is played twice. Of what the failed worker did, the 20 steps of some episodes of 3
    # or more, not all had been sent.
    assert len(specs) + 1 - 7 <= resets <= len(specs) + 1


@pytest.mark.parametrize(
    ("mode", "settings"), [("sync", {}), ("async", {}), ("async", {"async_rl": True})]
)
def test_a_traced_run_ends_with_the_same_weights(mode, settings, tmp_path):
    config = TrainConfig(
        mode=mode,
        n_envs=3,
        env_args={"max_steps": 6},
        total_episodes=12,
        episodes_per_update=6,
        settings=PPOConfig(hidden_sizes=(8,), minibatch_size=40, epochs=1),
        **settings,
    )
    train_policy(config, tmp_path / "plain", quiet=True)
    train_policy(config, tmp_path / "traced", quiet=True, trace_path=tmp_path / "trace.json")
    assert same_weights(tmp_path / "plain", tmp_path / "traced")
    rows = rows_of(tmp_path / "trace.json")
    learner = [event["name"] for event in rows[LEARNER]]
    assert learner.count("learning") == 2
    assert learner[:3] == ["waiting", "learning", "saving"]
    assert rows.keys() >= {LEARNER, *(f"worker-{index}" for index in range(config.n_workers))}


def test_an_interrupted_run_leaves_its_trace(tmp_path):
    path = tmp_path / "trace.json"

    def stop() -> None:
        if len(updates) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    options = "--simulator compiled --n-envs 2 --max-steps 20 --total-episodes 100000 --quiet"
    folders = ("--run-dir", tmp_path / "run", "--trace", path)
    with recorded_updates(stop) as updates:
        said_by("train-async", options, *folders, code=128 + signal.SIGINT)
    rows = rows_of(path)
    assert "learning" in {event["name"] for event in rows[LEARNER]}
    assert "playing" in {event["name"] for event in rows["worker-0"]}


def test_a_trace_that_cannot_be_written_stops_before_the_run(tmp_path):
    (tmp_path / "file").touch()
    trace = ("--trace", tmp_path / "file" / "trace.json")
    refused(call("train-async --run-dir", tmp_path / "run", *trace), "--trace")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
