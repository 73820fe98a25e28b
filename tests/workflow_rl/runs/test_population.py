"""Several policies in one run: each as if it were alone, and what they learn from each other."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from agents.algorithm import DivergedError
from agents.ppo.agent import PPOAgent
from tests import tiny_runs
from tests.any_envs import SeedEnv
from tests.faults.checks import assert_same_history
from tests.tiny_runs import Interfered, on_counting_envs, same_weights
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.collection.failures import StopRequested
from workflow_rl.commands.train_population import train_population
from workflow_rl.runs import loop
from workflow_rl.runs.checkpoint import TrainingState, load_checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.exchange import ExchangeConfig, drawn
from workflow_rl.runs.folder import NotWrittenError, RunDirError, read_config, read_metrics
from workflow_rl.runs.learner import Learner, make_agent
from workflow_rl.runs.population import Population
from workflow_rl.runs.population_dir import (
    POPULATION_FILE,
    PopulationRecord,
    begin_population,
    policy_folder,
    read_population,
    run_folders,
)
from workflow_rl.runs.population_figure import figure_of_folder

N_POLICIES = 4
EXCHANGE = ExchangeConfig(
    ranges={"learning_rate": (1e-4, 1e-1), "discount": (0.9, 0.99)},
    period=12,
    replace_fraction=0.3,
    replace_gap=0.0,
    mutation_rate=0.8,
)


def slow(value: Any) -> Any:
    """One more moment of many, among the long checks."""
    return pytest.param(value, marks=pytest.mark.slow)


class Killed(BaseException):
    """In the place of a SIGKILL: nothing catches it, nothing is saved after it."""


def configs_of(n_policies: int, exchange: bool = False, **changes: Any) -> list[TrainConfig]:
    configs = [tiny_runs.config_of(**{"seed": 3 + n, **changes}) for n in range(n_policies)]
    if not exchange:
        return configs
    return [
        one.changed(settings=one.settings.changed(**drawn(EXCHANGE.ranges, one.seed)))
        for one in configs
    ]


def run(
    path: Path, configs: list[TrainConfig], exchange: bool = False, before: Any = None
) -> list[dict[str, Any]]:
    """Begin it, or go on with it."""
    if not (path / POPULATION_FILE).exists():
        settings = EXCHANGE.to_dict() if exchange else None
        begin_population(path, PopulationRecord([one.to_dict() for one in configs], settings))
    record = read_population(path)
    learners = []
    for number, config in enumerate(configs):
        folder = policy_folder(path, number)
        resumed = None
        if (folder / "checkpoint.pt").exists():
            resumed = load_checkpoint(folder / "checkpoint.pt")
            changes = {"n_workers": config.n_workers, "envs_per_worker": config.envs_per_worker}
            config = TrainConfig.from_dict(resumed.config).changed(**changes)
        learners.append(Learner(config, folder, resumed))

    def collector_of(pool: Any, config: TrainConfig) -> Any:
        collector = loop.make_collector(pool, config)
        return collector if before is None else Interfered(collector, pool, before)

    with on_counting_envs():
        return loop.train_together(
            learners,
            quiet=True,
            watch=loop.stopped_by_signals,
            collector_of=collector_of,
            meetings=Population(path, record, learners) if exchange else None,
        )


def same_population(one: Path, other: Path) -> bool:
    left, right = read_population(one), read_population(other)
    return left.meetings == right.meetings and all(
        same_weights(*folders) for folders in zip(run_folders(one), run_folders(other), strict=True)
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[Path]:
    paths = [tmp_path_factory.mktemp("alone") / str(n) for n in range(3)]
    for path, config in zip(paths, configs_of(3), strict=True):
        tiny_runs.run(path, config)
    return paths


@pytest.fixture(scope="module")
def population(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("population") / "run"
    run(path, configs_of(N_POLICIES, exchange=True), exchange=True)
    return path


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory) -> Path:
    """A population with evaluations in the updates before its meetings."""
    path = tmp_path_factory.mktemp("evaluated") / "run"
    configs = configs_of(N_POLICIES, exchange=True, eval_every=2, eval_episodes=2)
    run(path, configs, exchange=True)
    return path


@pytest.mark.parametrize("shape", [{"n_workers": 1}, {"n_workers": 5}])
def test_each_policy_is_that_of_a_run_of_its_own(shape, alone, tmp_path):
    summaries = run(tmp_path / "run", configs_of(3, **shape))
    for path, folder in zip(alone, run_folders(tmp_path / "run"), strict=True):
        assert same_weights(path, folder)
        expected, rows = read_metrics(path), read_metrics(folder)
        assert [row["return_mean"] for row in rows] == [row["return_mean"] for row in expected]
    assert [summary["episodes"] for summary in summaries] == [36] * 3


@pytest.mark.parametrize("changes", [{"mode": "sync"}, {"async_rl": True}])
def test_so_it_is_in_other_modes(changes, tmp_path):
    configs = configs_of(2, **changes)
    run(tmp_path / "run", configs)
    for config, folder in zip(configs, run_folders(tmp_path / "run"), strict=True):
        tiny_runs.run(tmp_path / f"alone-{config.seed}", config)
        assert same_weights(tmp_path / f"alone-{config.seed}", folder)


def test_policies_may_collect_different_amounts(tmp_path):
    configs = [
        tiny_runs.config_of(seed=3, episodes_per_update=2),
        tiny_runs.config_of(seed=4, episodes_per_update=12),
    ]
    seen: list[int] = []

    def note(pool: Any, policy: Any, count: int) -> None:
        seen.append(policy.policy_version)

    summaries = run(tmp_path / "run", configs, before=note)
    assert [summary["updates"] for summary in summaries] == [18, 3]
    for config, folder in zip(configs, run_folders(tmp_path / "run"), strict=True):
        tiny_runs.run(tmp_path / str(config.seed), config)
        assert same_weights(tmp_path / str(config.seed), folder)
    # None is left behind: after two thirds of the batches of the one, so it is with the other.
    assert seen[:14].count(0) == 2
    assert max(seen[:14]) <= 12


def test_the_workers_collect_for_one_while_another_learns(tmp_path, monkeypatch):
    """When a policy has learned, the rollout of the other has been begun already."""
    begun: list[int] = []
    waiting: list[int] = []
    update = tiny_runs.PPOAgent.update

    def noting(agent: Any, trajectories: Any, progress: float) -> Any:
        waiting.append(len(begun) - len(waiting))
        return update(agent, trajectories, progress)

    submit = Learner.begin

    def counting(learner: Learner) -> None:
        before = len(learner.schedule.begun())
        submit(learner)
        begun.extend([learner.config.seed] * (len(learner.schedule.begun()) - before))

    monkeypatch.setattr(Learner, "begin", counting)
    monkeypatch.setattr(tiny_runs.PPOAgent, "update", noting)
    run(tmp_path / "run", configs_of(2))
    assert waiting[:-1] == [2] * 11


@pytest.mark.parametrize("stop_at", [0, slow(1), 5, slow(9), 17])
def test_stopped_anywhere_and_resumed_it_ends_alike(stop_at, alone, tmp_path):
    def stop(pool: Any, policy: Any, count: int) -> None:
        if count == stop_at:
            pool.stop_signal = 15

    with pytest.raises(StopRequested):
        run(tmp_path / "run", configs_of(3), before=stop)
    run(tmp_path / "run", configs_of(3, n_workers=1))
    for path, folder in zip(alone, run_folders(tmp_path / "run"), strict=True):
        assert same_weights(path, folder)


def test_weights_and_settings_are_taken_over(population):
    record = read_population(population)
    assert [meeting.at for meeting in record.meetings] == [12, 24]
    assert any(meeting.copies for meeting in record.meetings)
    for number, folder in enumerate(run_folders(population)):
        ppo = read_config(folder).settings
        for name, value in record.meetings[-1].settings[number].items():
            assert getattr(ppo, name) == value
        assert load_checkpoint(folder / "checkpoint.pt").config["settings"] == ppo.to_dict()
        # A learning rate falls to 0 by the run's end, from where the last meeting put it.
        last = read_metrics(folder)[-1]["learning_rate"]
        assert last == pytest.approx(ppo.learning_rate * (1 - 30 / 36))


def test_what_is_taken_over_is_a_copy(tmp_path, monkeypatch):
    """Both learn on, and neither changes the other: weights and the optimizer's moments."""
    taken: list[tuple[Learner, Learner]] = []
    take_over = Learner.take_over

    def noting(learner: Learner, other: Learner) -> None:
        take_over(learner, other)
        left, right = learner.agent.state_dict(), other.agent.state_dict()
        for one, same in (
            (left["network"], right["network"]),
            *zip(
                left["optimizer"]["state"].values(),
                right["optimizer"]["state"].values(),
                strict=True,
            ),
        ):
            for name, tensor in one.items():
                assert tensor.equal(same[name])
                assert tensor.data_ptr() != same[name].data_ptr()
        assert learner.agent.seed == learner.config.seed != other.agent.seed
        assert learner.state.recent_returns == other.state.recent_returns
        assert learner.state.recent_returns is not other.state.recent_returns
        taken.append((learner, other))

    monkeypatch.setattr(Learner, "take_over", noting)
    run(tmp_path / "run", configs_of(N_POLICIES, exchange=True), exchange=True)
    assert taken


@pytest.mark.parametrize("shape", [{"n_workers": 1}, {"n_workers": 5}])
def test_a_population_is_the_same_whatever_the_workers(shape, population, tmp_path):
    def kill(pool: Any, policy: Any, count: int) -> None:
        if count in (3, 11):
            pool._workers[0].process.kill()

    configs = configs_of(N_POLICIES, exchange=True, **shape)
    run(tmp_path / "run", configs, exchange=True, before=kill)
    assert same_population(tmp_path / "run", population)


@pytest.mark.parametrize("stop_at", [0, slow(7), 9, 12, slow(20)])
def test_a_population_stopped_and_resumed_ends_alike(stop_at, population, tmp_path):
    def stop(pool: Any, policy: Any, count: int) -> None:
        if count == stop_at:
            pool.stop_signal = 15

    configs = configs_of(N_POLICIES, exchange=True)
    with pytest.raises(StopRequested):
        run(tmp_path / "run", configs, exchange=True, before=stop)
    run(tmp_path / "run", configs, exchange=True)
    assert same_population(tmp_path / "run", population)


@pytest.mark.parametrize("stop_at", [8, slow(9), 10, slow(11)])
def test_an_evaluation_that_was_stopped_is_made_up_for_before_a_meeting(
    stop_at, evaluated, tmp_path
):
    def stop(pool: Any, policy: Any, count: int) -> None:
        if count == stop_at:
            pool.stop_signal = 15

    configs = configs_of(N_POLICIES, exchange=True, eval_every=2, eval_episodes=2)
    with pytest.raises(StopRequested):
        run(tmp_path / "run", configs, exchange=True, before=stop)
    run(tmp_path / "run", configs, exchange=True)
    for folders in zip(run_folders(tmp_path / "run"), run_folders(evaluated), strict=True):
        assert_same_history(*folders)
    assert same_population(tmp_path / "run", evaluated)


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call with n: the run dies before the nth file of a meeting is written."""

    def die_before(n: int) -> None:
        counts = iter(range(100))
        meet = Population.meet
        meeting: list[bool] = []

        def noted(population: Population) -> None:
            meeting.append(True)
            try:
                meet(population)
            finally:
                meeting.pop()

        def fatal(of: type, name: str) -> None:
            method = getattr(of, name)

            def maybe(*arguments: Any) -> Any:
                if meeting and next(counts) == n:
                    raise Killed
                return method(*arguments)

            monkeypatch.setattr(of, name, maybe)

        monkeypatch.setattr(Population, "meet", noted)
        fatal(Learner, "save")
        fatal(PopulationRecord, "write")

    return die_before


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call with a seed and an update: that policy diverges in the middle of it."""
    update = PPOAgent.update

    def diverge(seed: int, update_number: int) -> None:
        def maybe(agent: PPOAgent, *arguments: Any) -> Any:
            metrics = update(agent, *arguments)
            if (agent.seed, agent.policy_version) == (seed, update_number):
                raise DivergedError("the value's loss is inf")
            return metrics

        monkeypatch.setattr(PPOAgent, "update", maybe)

    return diverge


@pytest.mark.parametrize(("number", "stops"), [(0, (3, 6)), (1, (4, 9))])
def test_a_member_that_diverges_takes_over_from_another(number, stops, diverging, tmp_path, caplog):
    """Resumed, the population ends as it does undisturbed."""
    diverging(3 + number, 1)
    path, configs = tmp_path / "run", configs_of(N_POLICIES, exchange=True)
    run(path, configs, exchange=True)
    meeting = read_population(path).meetings[0]
    assert [score == -math.inf for score in meeting.scores] == [n == number for n in range(4)]
    assert number in dict(meeting.copies)
    assert meeting.at == 12, "of those that went on"
    (warning,) = [one.getMessage() for one in caplog.records if "diverged" in one.getMessage()]
    assert f"policy-{number} diverged in update 1: the value's loss is inf" in warning
    folder = policy_folder(path, number)
    assert (folder / "diverged.npz").exists()
    rows = read_metrics(folder)
    assert [row["episodes"] for row in rows] == [6, 12, 18, 24, 30, 36]
    assert [math.isnan(row["policy_loss"]) for row in rows] == [True] + [False] * 5
    assert not load_checkpoint(folder / "checkpoint.pt").training.diverged
    for stop_at in stops:
        again = tmp_path / str(stop_at)

        def stop(pool: Any, policy: Any, count: int, stop_at: int = stop_at) -> None:
            if count == stop_at:
                pool.stop_signal = 15

        with pytest.raises(StopRequested):
            run(again, configs, exchange=True, before=stop)
        run(again, configs, exchange=True)
        assert same_population(again, path)


def test_what_diverged_is_as_it_was_before_and_waits(diverging, tmp_path):
    configs = configs_of(N_POLICIES, exchange=True)
    weights: list[Any] = []

    def stop(pool: Any, policy: Any, count: int) -> None:
        weights.append(policy.parameters.weights)
        if count == 6:
            pool.stop_signal = 15

    diverging(4, 1)
    with pytest.raises(StopRequested):
        run(tmp_path, configs, exchange=True, before=stop)
    saved = load_checkpoint(policy_folder(tmp_path, 1) / "checkpoint.pt")
    assert saved.training.diverged
    assert (saved.training.updates, saved.training.episodes, saved.begun) == (1, 6, [])
    assert saved.agent["optimizer"]["state"] == {}
    agent = make_agent(configs[1])
    agent.load_state_dict(saved.agent)
    for left, right in zip(agent.policy_parameters().weights, weights[1], strict=True):
        assert np.array_equal(left, right)


@pytest.mark.parametrize(
    ("exchange", "update_number"),
    [(False, 1), (True, 5)],
    ids=["no exchange", "no meeting left"],
)
def test_one_that_cannot_be_rescued_ends_alone(
    exchange, update_number, population, diverging, tmp_path, caplog
):
    """Resumed too; its checkpoint is of before."""
    configs, path, undisturbed = configs_of(N_POLICIES, exchange), tmp_path / "run", population
    if not exchange:
        undisturbed = tmp_path / "undisturbed"
        run(undisturbed, configs)
    diverging(configs[0].seed, update_number)

    def stop(pool: Any, policy: Any, count: int) -> None:
        if count == 17 + update_number:
            pool.stop_signal = 15

    with pytest.raises(StopRequested):
        run(path, configs, exchange, before=stop)
    summaries = run(path, configs, exchange)
    assert [summary["finished"] for summary in summaries] == [False, True, True, True]
    assert summaries[0]["reason"] == "the value's loss is inf"
    assert "policy-0 diverged in update" in caplog.text
    assert (policy_folder(path, 0) / "diverged.npz").exists()
    assert len(read_metrics(policy_folder(path, 0))) == update_number - 1
    kept = load_checkpoint(policy_folder(path, 0) / "checkpoint.pt")
    assert kept.agent["policy_version"] == kept.training.updates < update_number
    assert all(tensor.isfinite().all() for tensor in kept.agent["network"].values())
    for one, other in list(zip(run_folders(path), run_folders(undisturbed), strict=True))[1:]:
        assert same_weights(one, other)


def test_the_last_member_that_learns_ends_the_run_if_it_diverges(monkeypatch, tmp_path):
    def diverge(*arguments: Any) -> Any:
        raise DivergedError("the value's loss is inf")

    monkeypatch.setattr(PPOAgent, "update", diverge)
    with pytest.raises(DivergedError):
        run(tmp_path, configs_of(N_POLICIES, exchange=True), exchange=True)


def test_a_state_of_before_there_was_divergence_still_loads():
    values = TrainingState(updates=3).to_dict()
    del values["diverged"]
    assert TrainingState.from_dict(values) == TrainingState(updates=3)


@pytest.mark.parametrize("n", [0, 1, slow(2), slow(3), 4, 5, slow(6), slow(7), 8])
def test_killed_in_the_middle_of_a_meeting_it_is_held_to_its_end(
    n, dying, monkeypatch, population, tmp_path
):
    configs = configs_of(N_POLICIES, exchange=True)
    with monkeypatch.context():
        dying(n)
        with pytest.raises(Killed):
            run(tmp_path / "run", configs, exchange=True)
    monkeypatch.undo()
    run(tmp_path / "run", configs, exchange=True)
    assert same_population(tmp_path / "run", population)


def test_nobody_meets_again_before_learning(tmp_path, monkeypatch):
    """Where a rollout is longer than several periods."""
    shorter = EXCHANGE.changed(period=2, start=1)
    monkeypatch.setattr("tests.workflow_rl.runs.test_population.EXCHANGE", shorter)
    run(tmp_path / "run", configs_of(N_POLICIES, exchange=True), exchange=True)
    meetings = read_population(tmp_path / "run").meetings
    assert [meeting.at for meeting in meetings] == [6, 12, 18, 24, 30]


def test_a_disk_that_is_full_at_a_meeting_is_one_clear_line(tmp_path, monkeypatch):
    def full(record: PopulationRecord, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PopulationRecord, "write", full)
    configs = configs_of(N_POLICIES, exchange=True)
    with pytest.raises(NotWrittenError, match="No space left"):
        run(tmp_path / "run", configs, exchange=True)


def test_members_may_be_ranked_by_evaluations(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tests.workflow_rl.runs.test_population.EXCHANGE",
        EXCHANGE.changed(rank_by="evaluation"),
    )
    scores = iter([0, 1, 2, math.nan, 4, 5, 6, 7])
    monkeypatch.setattr(Learner, "evaluate", lambda *arguments: float(next(scores)))
    run(tmp_path / "run", configs_of(N_POLICIES, exchange=True), exchange=True)
    meetings = read_population(tmp_path / "run").meetings
    assert [meeting.scores for meeting in meetings] == [[0, 1, 2, -math.inf], [4, 5, 6, 7]]


def test_members_are_ranked_on_the_same_episodes(tmp_path, monkeypatch):
    """Whose returns follow from their seeds alone, so that nobody is better than another."""
    monkeypatch.setattr(
        "tests.workflow_rl.runs.test_population.EXCHANGE",
        EXCHANGE.changed(rank_by="evaluation"),
    )
    configs = configs_of(
        3, exchange=True, env="seeds", env_args={}, make_env=SeedEnv, eval_every=1, eval_episodes=2
    )
    run(tmp_path / "run", configs, exchange=True)
    meetings = read_population(tmp_path / "run").meetings
    assert [len(set(meeting.scores)) for meeting in meetings] == [1, 1]
    assert [meeting.copies for meeting in meetings] == [[], []]
    # Nor are they those that choose each member's best.
    chosen_on = {read_metrics(one)[0]["eval_return_mean"] for one in run_folders(tmp_path / "run")}
    assert len(chosen_on) == 3
    assert not chosen_on & set(meetings[0].scores)


def test_members_are_ranked_by_their_last_100_episodes(population):
    class Stub:
        def __init__(self, returns: list[float]) -> None:
            self.state = TrainingState(recent_returns=deque(returns))

    ranked = Population(population, read_population(population), [])
    assert ranked.score(Stub([-50.0] * 200 + [-1.0] * 100)) == -1.0
    assert ranked.score(Stub([-3.0, -5.0])) == -4.0
    assert ranked.score(Stub([])) == -math.inf
    crashing = Stub([-1.0] * 100)
    crashing.state.episodes, crashing.state.skipped_episodes = 150, [49, 120]
    assert ranked.score(crashing) == -1.0, "one in a hundred"
    crashing.state.skipped_episodes = [119, 120]
    assert ranked.score(crashing) == -math.inf


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        json.dumps({"configs": [], "exchange": None, "meetings": []}),
        json.dumps({"configs": [{"mode": "async"}], "exchange": None, "meetings": []}),
        json.dumps({"configs": 3, "exchange": None, "meetings": []}),
    ],
)
def test_a_damaged_record_is_one_clear_line(content, tmp_path):
    (tmp_path / POPULATION_FILE).write_text(content)
    with pytest.raises(RunDirError, match=POPULATION_FILE):
        read_population(tmp_path)
    for command in (train_async, train_population):
        result = CliRunner().invoke(command, ["--resume", str(tmp_path)])
        assert result.exit_code == 2
        assert POPULATION_FILE in result.output.splitlines()[-1]


def test_meetings_of_others_are_refused(population, tmp_path):
    values = json.loads((population / POPULATION_FILE).read_text())
    others = [{"nonsense": 1.0}] * N_POLICIES
    invalid = [{"learning_rate": -1.0, "discount": 0.9}] * N_POLICIES
    for wrong in (
        *({"scores": [0.0]}, {"copies": [[0, 9]]}),
        *({"scores": [10**400] * N_POLICIES}, {"at": 10**400}, {"at": math.inf}, {"at": -1}),
        *({"settings": []}, {"settings": others}, {"settings": invalid}),
    ):
        meetings = [{**values["meetings"][0], **wrong}]
        (tmp_path / POPULATION_FILE).write_text(json.dumps({**values, "meetings": meetings}))
        with pytest.raises(RunDirError, match=POPULATION_FILE):
            read_population(tmp_path)


@pytest.mark.parametrize("damage", ["no rows", "no such column"])
def test_a_picture_of_meetings_that_members_have_not_come_to(damage, population, tmp_path):
    path = shutil.copytree(population, tmp_path / "run")
    file = path / "policy-1" / "metrics.csv"
    heading, _, rows = file.read_text().partition("\n")
    if damage == "no rows":
        file.write_text(f"{heading}\n")
    else:
        record = json.loads((path / POPULATION_FILE).read_text())
        for config in record["configs"]:
            config |= {"total_episodes": None, "total_steps": 999}
        (path / POPULATION_FILE).write_text(json.dumps(record))
        file.write_text(f"{heading.replace('env_steps', 'other')}\n{rows}")
    with pytest.raises(RunDirError, match=r"policy-1/metrics\.csv is not of the population"):
        figure_of_folder(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [1],
        {**EXCHANGE.to_dict(), "nonsense": 1},
        {**EXCHANGE.to_dict(), "ranges": {"learning_rate": 3}},
        {**EXCHANGE.to_dict(), "period": "12"},
        {**EXCHANGE.to_dict(), "period": 0},
    ],
)
def test_settings_of_a_population_that_make_no_sense_are_refused(wrong, population, tmp_path):
    values = json.loads((population / POPULATION_FILE).read_text())
    (tmp_path / POPULATION_FILE).write_text(
        json.dumps({**values, "exchange": wrong, "meetings": []})
    )
    with pytest.raises(RunDirError, match=POPULATION_FILE):
        read_population(tmp_path)


def test_no_policy_of_a_run_has_anything_called(tmp_path):
    path, called = tmp_path / "run", tmp_path / "called"
    run(path, configs_of(2, total_episodes=6))
    checkpoint = load_checkpoint(policy_folder(path, 1) / "checkpoint.pt")
    ppo = TrainConfig.from_dict(checkpoint.config).settings
    hostile = TrainConfig("async", env="os:mkdir", env_args={"path": str(called)}, ppo=ppo)
    checkpoint = dataclasses.replace(checkpoint, config=hostile.to_dict())
    save_checkpoint(policy_folder(path, 1) / "checkpoint.pt", checkpoint)
    result = CliRunner().invoke(train_async, ["--resume", str(path)])
    assert result.exit_code == 2
    assert "only the file names the environment os:mkdir" in result.output
    assert not called.exists()


CART_POLE = ["--env", "CartPole-v1", "--total-steps", "900", "--steps-per-update", "150"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-policies", "2", "--num-steps-per-env", "8"], "several policies"),
        (["--n-policies", "2", "--preset", "continuous"], "several policies"),
        (["--n-policies", "0"], "--n-policies"),
    ],
)
def test_what_several_policies_cannot_do_is_one_line(arguments, message):
    result = CliRunner().invoke(train_async, [*CART_POLE[:2], *arguments])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-policies", "1"], "--n-policies"),
        (["--async-rl"], "--async-rl"),
        (["--preset", "alf"], "--preset alf ("),
        (["--preset", "sample-factory-sync"], "(--num-steps-per-env 32): 32 does not go with"),
        (["--range", "epochs=1:3"], "--range"),
        (["--range", "learning-rate=3"], "--range"),
        (["--range", "learning-rate=1:0.1"], "--range"),
        (["--perturb-min", "2"], "--perturb-max"),
    ],
)
def test_what_a_population_cannot_do_is_one_line(arguments, message):
    result = CliRunner().invoke(train_population, [*CART_POLE[:2], *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_the_commands_end_to_end(tmp_path):
    """Train, be told so, resume what is finished with more, evaluate and plot the folder."""
    from workflow_rl.commands.evaluate import evaluate
    from workflow_rl.commands.plot import plot
    from workflow_rl.commands.report import report
    from workflow_rl.commands.verify import verify

    path = tmp_path / "not there yet" / "run"
    invoke = CliRunner().invoke
    arguments = [*CART_POLE, "--n-policies", "3", "--quiet", "--run-dir", str(path)]
    result = invoke(train_population, [*arguments, "--period", "300"])
    assert result.exit_code == 0, result.output
    assert "meetings: " in result.output
    best = json.loads((path / "summary.json").read_text())["best_policy"]
    assert f"of policy {best}" in result.output
    assert same_agent(path / "best.pt", policy_folder(path, best) / "best.pt")
    assert (path / "learning_curve.png").stat().st_size > 10_000

    finished = invoke(train_population, ["--resume", str(path), "--quiet"])
    assert finished.exit_code == 2
    assert "--total-steps" in finished.output
    other = invoke(train_async, ["--resume", str(path)])
    assert other.exit_code == 2
    assert "train-population" in other.output
    more = ["--resume", str(path), "--quiet", "--total-steps", "1500"]
    assert invoke(train_population, [*more, "--n-policies", "2"]).exit_code == 2
    result = invoke(train_population, more)
    assert result.exit_code == 0, result.output
    assert read_metrics(policy_folder(path, 2))[-1]["env_steps"] >= 1500

    assert invoke(evaluate, [str(path), "--episodes", "3", "--quiet"]).exit_code == 0
    result = invoke(plot, [str(path), "--output", str(tmp_path / "plot.png")])
    assert result.exit_code == 0, result.output
    result = invoke(report, [str(path), "--output", str(tmp_path / "report.html")])
    assert result.exit_code == 0, result.output
    assert "policy-2" in (tmp_path / "report.html").read_text()
    result = invoke(verify, [str(path)])
    assert result.exit_code == 2
    assert "policy-0" in result.output
    again = invoke(train_population, [*arguments, "--period", "300"])
    assert again.exit_code == 2
    assert "not empty" in again.output


@pytest.mark.parametrize("update_number", [1, 2])
def test_a_run_one_of_whose_policies_diverged_goes_on_past_its_end(
    update_number, diverging, tmp_path
):
    path = tmp_path / "run"
    diverging(0, update_number)
    arguments = [*CART_POLE, "--n-policies", "2", "--quiet", "--run-dir", str(path)]
    result = CliRunner().invoke(train_async, [*arguments, "--final-evaluation", "2"])
    assert result.exit_code == 0, result.output
    assert "best agent:" in result.output
    assert "(of policy 1)" in result.output
    assert json.loads((path / "summary.json").read_text())["best_policy"] == 1
    (of_one,) = [line for line in result.output.splitlines() if "scores:" in line]
    assert "policy-1" in of_one
    more = CliRunner().invoke(
        train_async, ["--resume", str(path), "--quiet", "--total-steps", "1500"]
    )
    assert more.exit_code == 0, more.output
    assert read_metrics(policy_folder(path, 1))[-1]["env_steps"] >= 1500


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished population, by the command."""
    path = tmp_path_factory.mktemp("trained") / "run"
    arguments = [*CART_POLE, "--n-policies", "2", "--quiet", "--run-dir", str(path)]
    assert CliRunner().invoke(train_population, arguments).exit_code == 0
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--period", "7"], "--period is not what"),
        (["--range", "discount=0.9:0.99"], "--range is not what"),
        (["--init-from", "runs/other"], "--init-from runs/other does not go with --resume"),
    ],
)
def test_what_a_resumed_population_would_ignore_is_refused(arguments, message, trained):
    resume = ["--resume", str(trained), "--total-steps", "1800"]
    result = CliRunner().invoke(train_population, [*resume, *arguments])
    assert result.exit_code == 2
    assert message in result.output
    own = ["--period", str(read_population(trained).exchange["period"]), "--dry-run"]
    assert CliRunner().invoke(train_population, [*resume, *own]).exit_code == 0


def test_a_member_does_not_go_on_alone(trained):
    folder = policy_folder(trained, 1)
    arguments = ["--resume", str(folder), "--total-steps", "1800", "--quiet"]
    result = CliRunner().invoke(train_async, arguments)
    assert result.exit_code == 2
    assert f"resumed as a whole: {trained}, with" in " ".join(result.output.split())


def test_stopped_after_its_last_update_it_is_finished_by_resuming(trained, tmp_path, monkeypatch):
    path = tmp_path / "run"
    shutil.copytree(trained, path)

    def full(*arguments: Any) -> None:
        raise RunDirError("the disk is full")

    resume = ["--resume", str(path), "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr("workflow_rl.runs.execute.finish_population", full)
        result = CliRunner().invoke(train_population, [*resume, "--total-steps", "1200"])
        assert result.exit_code == 2
    assert CliRunner().invoke(train_population, resume).exit_code == 0
    summary = json.loads((path / "summary.json").read_text())
    assert all(one["env_steps"] >= 1200 for one in summary["policies"])


def same_agent(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()
