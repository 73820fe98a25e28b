from pathlib import Path
from typing import Any

import pytest

from tests.faults.checks import assert_same_history
from tests.tiny_runs import stop_before
from tests.workflow_rl.studies.population_runs import (
    EXCHANGE,
    N_POLICIES,
    configs_of,
    run,
    same_population,
    slow,
)
from workflow_rl.collection.messages import StopRequested
from workflow_rl.errors import ConfigError
from workflow_rl.runs.folder import read_config, read_metrics, runs_in
from workflow_rl.runs.learner import Learner
from workflow_rl.runs.on_update import Update
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.resume import resumed_plan
from workflow_rl.runs.run_dir import NotWrittenError
from workflow_rl.runs.several_policies import PopulationRecord, read_population
from workflow_rl.studies.population import Population

pytestmark = pytest.mark.system


class Killed(BaseException):
    """In the place of a SIGKILL: nothing catches it, nothing is saved after it."""


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory) -> Path:
    """A population with evaluations in the updates before its meetings."""
    path = tmp_path_factory.mktemp("evaluated") / "run"
    configs = configs_of(N_POLICIES, exchange=EXCHANGE, eval_every=2, eval_episodes=2)
    run(path, configs, exchange=EXCHANGE)
    return path


def test_weights_and_settings_are_taken_over(population):
    record = read_population(population)
    assert [meeting.at for meeting in record.meetings] == [12, 24]
    assert any(meeting.copies for meeting in record.meetings)
    for number, folder in enumerate(runs_in(population)):
        ppo = read_config(folder).settings
        for name, value in record.meetings[-1].settings[number].items():
            assert getattr(ppo, name) == value
        assert (
            load_checkpoint(folder / "checkpoint.safetensors").config["settings"] == ppo.to_dict()
        )
        # A learning rate falls to 0 by the run's end, from where the last meeting put it.
        last = read_metrics(folder)[-1]["learning_rate"]
        assert last == pytest.approx(ppo.learning_rate * (1 - 30 / 36))


def test_all_end_when_one_is_stopped_and_go_on_exactly(tmp_path, population):
    def stop(update: Update) -> None:
        if update.path.name == "policy-1" and update.number == 1:
            update.stop("enough")

    path, configs = tmp_path / "run", configs_of(N_POLICIES, EXCHANGE)
    summaries = run(path, configs, exchange=EXCHANGE, on_update=stop)
    assert [summary["stopped"] for summary in summaries] == ["enough"] * N_POLICIES
    assert not read_population(path).meetings
    run(path, configs, exchange=EXCHANGE)
    assert same_population(path, population)


def test_a_resume_cannot_make_members_end_apart(population):
    with pytest.raises(ConfigError, match="end together"):
        resumed_plan(population, {"total_episodes": 72, "patience": 3})


def test_what_is_taken_over_is_a_copy_without_unfinished_episodes(tmp_path, monkeypatch):
    """Both learn on, and neither changes the other. Unrolls of two policies have the same numbers
    of episodes."""
    unfinished_of_others: list[Any] = []
    take_over = Learner.take_over

    def noting(learner: Learner, other: Learner) -> None:
        take_over(learner, other)
        left, right = learner.agent.state_dict(), other.agent.state_dict()
        moments = [one["optimizer"]["state"].values() for one in (left, right)]
        pairs = [(left["network"], right["network"]), *zip(*moments, strict=True)]
        for one, same in pairs:
            for name, tensor in one.items():
                assert tensor.equal(same[name])
                assert tensor.data_ptr() != same[name].data_ptr()
        assert learner.agent.seed == learner.config.seed != other.agent.seed
        assert learner.state.recent_returns == other.state.recent_returns
        assert learner.state.recent_returns is not other.state.recent_returns
        assert left["return_scale"] == {**right["return_scale"], "open": []}
        unfinished_of_others.append(right["return_scale"]["open"])

    monkeypatch.setattr(Learner, "take_over", noting)
    unrolls = {"num_steps_per_env": 2, "steps_per_update": 10, "total_episodes": 48}
    configs = configs_of(N_POLICIES, EXCHANGE, **unrolls, settings={"normalise_returns": True})
    run(tmp_path / "run", configs, exchange=EXCHANGE)
    assert any(unfinished_of_others)


@pytest.mark.parametrize("shape", [{"n_workers": 1}, {"n_workers": 5}])
def test_a_population_is_the_same_whatever_the_workers(shape, population, tmp_path):
    def kill(pool: Any, policy: Any, count: int) -> None:
        if count in (3, 11):
            pool._workers[0].process.kill()

    configs = configs_of(N_POLICIES, exchange=EXCHANGE, **shape)
    run(tmp_path / "run", configs, exchange=EXCHANGE, before=kill)
    assert same_population(tmp_path / "run", population)


@pytest.mark.parametrize("stop_at", [0, slow(7), 9, slow(12), slow(20)])
def test_a_population_stopped_and_resumed_ends_alike(stop_at, population, tmp_path):
    configs = configs_of(N_POLICIES, exchange=EXCHANGE)
    with pytest.raises(StopRequested):
        run(tmp_path / "run", configs, exchange=EXCHANGE, before=stop_before(stop_at))
    run(tmp_path / "run", configs, exchange=EXCHANGE)
    assert same_population(tmp_path / "run", population)


@pytest.mark.parametrize("stop_at", [8, slow(9), slow(10), slow(11)])
def test_an_evaluation_that_was_stopped_is_made_up_for_before_a_meeting(
    stop_at, evaluated, tmp_path
):
    configs = configs_of(N_POLICIES, exchange=EXCHANGE, eval_every=2, eval_episodes=2)
    with pytest.raises(StopRequested):
        run(tmp_path / "run", configs, exchange=EXCHANGE, before=stop_before(stop_at))
    run(tmp_path / "run", configs, exchange=EXCHANGE)
    for folders in zip(runs_in(tmp_path / "run"), runs_in(evaluated), strict=True):
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


@pytest.mark.parametrize("n", [0, *map(slow, (1, 2, 3)), 4, *map(slow, (5, 6, 7)), 8])
def test_killed_in_the_middle_of_a_meeting_it_is_held_to_its_end(
    n, dying, monkeypatch, population, tmp_path
):
    configs = configs_of(N_POLICIES, exchange=EXCHANGE)
    with monkeypatch.context():
        dying(n)
        with pytest.raises(Killed):
            run(tmp_path / "run", configs, exchange=EXCHANGE)
    monkeypatch.undo()
    run(tmp_path / "run", configs, exchange=EXCHANGE)
    assert same_population(tmp_path / "run", population)


def test_nobody_meets_again_before_learning(tmp_path):
    """Where a rollout is longer than several periods."""
    shorter = EXCHANGE.changed(period=2, start=1)
    run(tmp_path / "run", configs_of(N_POLICIES, exchange=shorter), exchange=shorter)
    meetings = read_population(tmp_path / "run").meetings
    assert [meeting.at for meeting in meetings] == [6, 12, 18, 24, 30]


def test_a_disk_that_is_full_at_a_meeting_is_one_clear_line(tmp_path, monkeypatch):
    def full(record: PopulationRecord, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PopulationRecord, "write", full)
    configs = configs_of(N_POLICIES, exchange=EXCHANGE)
    with pytest.raises(NotWrittenError, match="No space left"):
        run(tmp_path / "run", configs, exchange=EXCHANGE)
