import contextlib
import dataclasses
import math
import sqlite3
import struct
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tiny_runs import config_of, on_counting_envs
from tests.workflow_rl.studies.search_runs import (
    COMPLETE,
    PRUNED,
    RANGES,
    Asked,
    answered,
    replay,
    search_in,
)
from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.messages import StopRequested
from workflow_rl.errors import UserError
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.run_dir import NotWrittenError
from workflow_rl.runs.training_state import TrainingState

optuna = pytest.importorskip("optuna")
from workflow_rl.studies import search  # noqa: E402 (it needs Optuna)
from workflow_rl.studies.search import (  # noqa: E402
    FAILURE,
    REPORTS,
    Search,
    described_trial,
    score_of,
)

FINALS = ("final-0", "final-1")


def run_search(one: Search, n_trials: int | None, seconds: float | None = None) -> Any:
    study = one.study()
    one.run(study, n_trials, seconds)
    return study


def test_it_begins_with_the_configs_own_settings(tmp_path, monkeypatch):
    one = search_in(tmp_path)
    replay(monkeypatch, {name: [0.0] for name in ("trial-0", "trial-1", "trial-2", *FINALS)})
    study = run_search(one, 3)
    ppo = one.config.settings
    trials = study.get_trials()
    assert one.settings(trials[0]) == pytest.approx(
        {"learning_rate": ppo.learning_rate, "discount": ppo.discount, "epochs": ppo.epochs}
    )
    assert list(trials[0].params) == ["learning_rate", "1 - discount", "epochs"]
    for trial in trials:
        for name, value in one.settings(trial).items():
            assert RANGES[name][0] <= value <= RANGES[name][1]
        assert isinstance(one.settings(trial)["epochs"], int)
    assert len({trial.params["learning_rate"] for trial in trials}) == 3


def test_what_does_worse_than_most_is_given_up(tmp_path, monkeypatch):
    rising = [float(report) for report in range(REPORTS)]
    results = {f"trial-{n}": rising for n in range(5)}
    results |= {"trial-5": [one - 5 for one in rising], "final-0": [1.0], "final-1": [2.0]}
    one = search_in(tmp_path)
    replay(monkeypatch, results)
    study = run_search(one, 6)
    assert [trial.state for trial in study.get_trials()] == [COMPLETE] * 5 + [PRUNED]
    assert len(study.get_trials()[5].intermediate_values) < REPORTS


def test_the_finals_alone_name_the_best(tmp_path, monkeypatch):
    results = {"trial-0": [-9.0], "trial-1": [-1.0], "trial-2": [-3.0], "trial-3": [-4.0]}
    # By the mean of trial and finals, or by its best seed, it would be the second.
    results |= {"final-1": [-2.0, -8.0, -8.0], "final-2": [-5.0] * 3, "final-0": [-6.0] * 3}
    one = search_in(tmp_path)
    played = replay(monkeypatch, results)
    study = run_search(one, 4)
    assert played[4:] == ["final-1", "final-2", "final-0"], "two, and the first trial"
    assert one.finals(study) == {1: [-2.0, -8.0, -8.0], 2: [-5.0] * 3, 0: [-6.0] * 3}
    assert one.best(study).number == 2
    without = search_in(tmp_path / "without", n_finalists=0)
    assert without.best(run_search(without, 4)).number == 1


def test_finalists_have_the_same_seeds_and_each_once(tmp_path, monkeypatch):
    def answer(asked: Asked) -> float:
        if asked.name == "final-1":
            raise DivergedError("nothing of it is a number")
        return 0.0

    asked = answered(monkeypatch, answer)
    one = search_in(tmp_path)
    study = run_search(one, 2)
    first = search.FIRST_FINAL_SEED
    seeds = [first, first + 1, first + 2]
    assert [one[:2] for one in asked[2:]] == [(name, seeds) for name in FINALS]
    assert one.finals(study)[1] == [-math.inf] * 3
    assert one.best(study).number == 0
    one.run(study, 2, None)
    assert asked[4:] == [], "nothing is left to do"
    more = dataclasses.replace(one, n_policies=5)
    more.run(study, 2, None)
    seeds = [first + 3, first + 4]
    assert [one[:2] for one in asked[4:]] == [(name, seeds) for name in FINALS]


def test_a_finalist_of_more_seeds_is_compared_on_those_of_all(tmp_path, monkeypatch):
    """Resumed with less time, the search has fewer seeds for the finalist that it finds then."""
    one = search_in(tmp_path, n_finalists=1)
    results = {"trial-0": [-9.0], "trial-1": [-1.0]}
    # With its third seed, which no other has had, trial 0 would be the best.
    results |= {"final-0": [-6.0, -6.0, 30.0], "final-1": [-5.0, -5.0, -5.0]}
    replay(monkeypatch, results)
    study = run_search(one, 1)
    assert one.best(study).number == 0
    monkeypatch.setattr(Search, "_seeds_affordable", lambda *arguments: 2)
    one.run(study, 2, None)
    assert one.finals(study) == {0: [-6.0, -6.0, 30.0], 1: [-5.0, -5.0]}
    assert one.compared(study) == {0: [-6.0, -6.0], 1: [-5.0, -5.0]}
    assert one.best(study).number == 1


def test_one_seed_of_a_finalist_that_diverges_counts_as_such(tmp_path, monkeypatch):
    one = search_in(tmp_path, n_finalists=1)
    update = PPOAgent.update

    def diverging(agent: PPOAgent, *arguments: Any) -> Any:
        if agent.seed == one.config.seed + search.FIRST_FINAL_SEED + 1:
            raise DivergedError("nothing of it is a number")
        return update(agent, *arguments)

    monkeypatch.setattr(PPOAgent, "update", diverging)
    with on_counting_envs():
        study = run_search(one, 1)
    assert [math.isfinite(final) for final in one.finals(study)[0]] == [True, False, True]


@pytest.mark.parametrize(
    ("seconds", "names", "n_seeds"),
    [
        # Three finalists of three seeds may take 45 s, and the trial before them 10 s.
        (100, ["trial"] * 5 + ["final"] * 3, 3),
        (70, ["trial"] * 2 + ["final"] * 2, 3),
        (20, ["trial", "final"], 2),
        (5, ["trial", "final"], 1),
    ],
)
def test_time_for_the_finals_is_left(seconds, names, n_seeds, tmp_path, monkeypatch, capsys):
    """With trials of two policies that take 10 s, the later ones better."""
    now = [0.0]
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(
        optuna.trial.FrozenTrial, "duration", property(lambda trial: timedelta(seconds=10))
    )

    def answer(one: Asked) -> float:
        now[0] += 5 * len(one.seeds)
        return float(len(asked))

    asked = answered(monkeypatch, answer)
    one = dataclasses.replace(search_in(tmp_path), quiet=False)
    run_search(one, None, seconds)
    left = max(0, seconds - 10 * names.count("trial"))
    assert f"no further trial: {left} s are left, and one more" in capsys.readouterr().out
    assert [one.name.partition("-")[0] for one in asked] == names
    assert len(asked[-1].seeds) == n_seeds
    assert now[0] <= seconds or seconds < 20


def test_a_study_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    one = search_in(tmp_path)
    scores = {f"trial-{n}": [float(n)] for n in range(9)}
    played = replay(monkeypatch, scores | {f"final-{n}": [0.0] * 3 for n in range(9)})
    trained = Search._train

    def stopped(self: Search, settings: Any, seeds: Any, name: str, trial: Any) -> list[float]:
        if name == "trial-2":
            asked.append(settings)
            raise StopRequested(2)
        return trained(self, settings, seeds, name, trial)

    asked: list[Any] = []
    monkeypatch.setattr(Search, "_train", stopped)
    with pytest.raises(StopRequested):
        one.run(one.study(), 5, None)
    monkeypatch.setattr(Search, "_train", trained)
    study = search_in(tmp_path).study()
    one.run(study, 5, None)
    over = study.get_trials(states=(COMPLETE, PRUNED))
    assert [trial.number for trial in over] == [0, 1, 3, 4, 5]
    assert one.settings(over[2]) == pytest.approx(asked[0]), "the interrupted one is tried again"
    assert len({trial.params["learning_rate"] for trial in over}) == 5
    assert played.count("trial-3") == 1


def test_trials_train_policies_of_other_seeds(tmp_path):
    one = search_in(tmp_path, n_finalists=1)
    with on_counting_envs():
        study = run_search(one, 2)
    configs = {
        folder.name: [read_config(policy) for policy in sorted(folder.glob("policy-*"))]
        for folder in tmp_path.iterdir()
        if folder.is_dir()
    }
    assert len(configs) == 3
    seeds = [config.seed for own in configs.values() for config in own]
    assert len(set(seeds)) == len(seeds) == 2 + 2 + 3
    for trial in study.get_trials():
        for config in configs[f"trial-{trial.number}"]:
            for name, value in one.settings(trial).items():
                assert getattr(config.settings, name) == value
        # At every tenth of 36 episodes, of which the last update begins with 30.
        assert len(trial.intermediate_values) == 8
        assert math.isfinite(trial.value)


def test_the_score_is_the_mean_over_the_policies():
    class Stub:
        def __init__(self, returns: list[float]) -> None:
            self.state = TrainingState(episodes=300, recent_returns=returns)
            self.config = config_of()

    assert score_of([Stub([1.0, 3.0]), Stub([6.0])]) == 4.0
    assert score_of([Stub([1.0]), Stub([])]) == -math.inf
    lucky = Stub([-6.0, -6.0, -3.0, -3.0, *[0.0] * 8])
    for red_agent, n in zip(RED_AGENTS, (2, 2, 8), strict=True):
        lucky.state.recent_variants.extend([red_agent] * n)
    assert score_of([lucky]) == -3, "each kind of episode as often as it is drawn"
    crashing = Stub([6.0])
    crashing.state.skipped_episodes = [1, 2, 3, 4]
    assert score_of([Stub([1.0, 3.0]), crashing]) == -math.inf


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ({"state": COMPLETE, "value": -3.456}, "-3.46"),
        ({"state": PRUNED, "intermediate_values": {REPORTS // 2: -8.0}}, "given up at 50%"),
        ({"state": PRUNED, "user_attrs": {FAILURE: "the loss is inf"}}, "failed"),
    ],
)
def test_a_trial_in_a_line(values, result):
    trial = optuna.trial.create_trial(**values)
    line, _, why = described_trial(trial, {"learning_rate": 0.00123456}).partition(": ")
    assert line.split() == ["trial", "-1", *result.split(), "learning-rate", "0.00123"]
    assert why == values.get("user_attrs", {}).get(FAILURE, "")


def test_the_first_trial_has_the_configs_own_settings_also_outside_the_ranges(
    tmp_path, monkeypatch
):
    asked = answered(monkeypatch, lambda one: float(len(asked)))
    config = config_of(settings={"entropy_coef": 0.0, "learning_rate": 1e-3})
    ranges = {"entropy_coef": (1e-5, 1e-1), "learning_rate": (1e-5, 1e-1)}
    one = Search(config, ranges, 2, 1, tmp_path, quiet=True)
    study = run_search(one, 3)
    own = {"entropy_coef": 0.0, "learning_rate": 1e-3}
    assert asked[0].settings == own
    assert own not in [one.settings for one in asked[1:3]]
    assert [trial.number for trial in one.finalists(study)] == [2, 0]
    assert asked[-1].settings == one.settings(one.finalists(study)[1]) == own


@pytest.mark.parametrize("name", ["study.db", "study.db-journal", "study.db-wal"])
def test_a_study_that_is_a_link_is_not_opened(name, tmp_path):
    """SQLite would write into what the link leads to."""
    own = tmp_path / "own.db"
    own.touch()
    search_in(tmp_path / "tuned")
    (tmp_path / "tuned" / name).symlink_to(own)
    with pytest.raises(UserError, match=f"{name} is a link"):
        search_in(tmp_path / "tuned").study()
    assert own.read_bytes() == b""


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER endless AFTER INSERT ON trials BEGIN SELECT 1; END",
        "CREATE VIEW endless AS SELECT 1",
        "CREATE VIRTUAL TABLE endless USING rtree(a, b, c)",
    ],
)
def test_a_study_that_brings_statements_is_not_opened(statement, tmp_path):
    """SQLite would run them, perhaps without an end."""
    search = search_in(tmp_path / "tuned")
    search.study()
    with contextlib.closing(sqlite3.connect(tmp_path / "tuned" / "study.db")) as connection:
        connection.execute(statement)
    with pytest.raises(UserError, match="views, triggers or virtual tables"):
        search.study()


def test_a_journal_that_names_a_file_is_not_played_back(tmp_path):
    """SQLite would remove the file once it has played the journal back."""
    own = tmp_path / "own.txt"
    own.write_text("the user's")
    search_in(tmp_path).study()
    database, journal = tmp_path / "study.db", tmp_path / "study.db-journal"
    connection = sqlite3.connect(database, isolation_level=None)
    for command in ("PRAGMA cache_size=1", "BEGIN EXCLUSIVE", "CREATE TABLE filling (text)"):
        connection.execute(command)
    connection.executemany("INSERT INTO filling VALUES (?)", [("x" * 3000,)] * 200)
    crashed, played = database.read_bytes(), journal.read_bytes()
    connection.close()
    named = str(own).encode()
    page = struct.pack(">I", 2**30 // 4096 + 1)
    ends = page + named + struct.pack(">II", len(named), sum(named)) + played[:8]
    database.write_bytes(crashed)
    journal.write_bytes(played + ends)
    with pytest.raises(UserError, match="names another file"):
        search_in(tmp_path).study()
    assert own.exists()
    # One of a crash alone is played back.
    journal.write_bytes(played)
    assert search_in(tmp_path).study()
    assert not journal.exists()


@pytest.mark.parametrize("finals", [{"x": [1.0]}, {"0": ["x"]}, [1.0], {"0": None}, "a trial"])
def test_a_study_with_odd_finals_or_of_other_settings_is_one_line(finals, tmp_path):
    study = search_in(tmp_path).study()
    if finals == "a trial":
        study.tell(study.ask(), 1.0)
    else:
        study.set_user_attr(search.FINALS, finals)
    with pytest.raises(UserError, match="no search of this package"):
        search_in(tmp_path).study()


@pytest.mark.parametrize("kind", ["categorical", "linear", "whole", "a text", "a list"])
def test_a_study_whose_trials_no_search_asks_for_is_one_line(kind, tmp_path):
    study = search_in(tmp_path).study()
    if kind.startswith("a "):
        study.enqueue_trial({"epochs": "x" if kind == "a text" else [1]})
    trial = study.ask()
    if kind == "categorical":
        trial.suggest_categorical("epochs", [1, 2])
    elif kind == "linear":
        trial.suggest_float("learning_rate", 1e-5, 1e-1)
    elif kind == "whole":
        trial.suggest_int("learning_rate", 1, 5, log=True)
    with pytest.raises(UserError, match="no search of this package"):
        search_in(tmp_path).study()


def test_folders_of_any_name_hold_their_study(tmp_path):
    path = tmp_path / "what?{is}%41this"
    search_in(path).study()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert (path / "study.db").exists()


def test_a_damaged_study_is_one_clear_line(tmp_path):
    (tmp_path / "study.db").write_bytes(b"no database" * 100)
    with pytest.raises(UserError, match=r"study\.db"):
        search_in(tmp_path).study()


def test_a_study_that_was_deleted_is_not_begun_again(tmp_path):
    """Its trials' folders are still there, and what it found."""
    own = search_in(tmp_path)
    own.study()
    (tmp_path / "trial-0").mkdir()
    own.study()
    (tmp_path / "study.db").unlink()
    with pytest.raises(UserError, match=r"no study\.db to go on from"):
        own.study()
    assert not (tmp_path / "study.db").exists()


def test_a_study_on_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def fails(self, *arguments):
        raise optuna.exceptions.StorageInternalError("the commit") from OSError("disk full\nSQL")

    monkeypatch.setattr(Search, "_run_trials", fails)
    own = search_in(tmp_path)
    with pytest.raises(NotWrittenError, match=r"study\.db cannot be written: disk full$"):
        own.run(own.study(), 1, None)
