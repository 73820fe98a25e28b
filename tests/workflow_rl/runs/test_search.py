"""The search for settings: what it tries, gives up, goes on with and names the best."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import sqlite3
import struct
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from agents.algorithm import DivergedError
from agents.ppo.agent import PPOAgent
from tests.tiny_runs import config_of, on_counting_envs
from workflow_rl.collection.failures import StopRequested
from workflow_rl.commands.tune import TUNE_FILE, tune
from workflow_rl.runs.checkpoint import TrainingState
from workflow_rl.runs.folder import RunDirError, read_config

optuna = pytest.importorskip("optuna")

from workflow_rl.runs import search  # noqa: E402 (it needs Optuna)
from workflow_rl.runs.search import REPORTS, Search, described, score_of  # noqa: E402

RANGES = {"learning_rate": (1e-5, 1e-1), "discount": (0.9, 0.999), "epochs": (1, 5)}
COMPLETE, PRUNED = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED


def search_in(path: Path, n_finalists: int = 2) -> Search:
    path.mkdir(exist_ok=True)
    return Search(config_of(), RANGES, 2, n_finalists, path, quiet=True)


def replay(monkeypatch: pytest.MonkeyPatch, results: dict[str, list[float]]) -> list[str]:
    """Trials come to what is given by their name, report by report, and train nothing."""
    played: list[str] = []

    def train(self: Search, settings: Any, seeds: Any, name: str, trial: Any) -> list[float]:
        played.append(name)
        reports = results[name]
        if trial is not None:
            for number, one in enumerate(reports):
                trial.report(one, number + 1)
                if trial.should_prune():
                    raise optuna.TrialPruned
        return reports[-1:] * len(seeds) if trial else reports[: len(seeds)]

    monkeypatch.setattr(Search, "_train", train)
    return played


@pytest.mark.parametrize("name", ["study.db", "study.db-journal", "study.db-wal"])
def test_a_study_that_is_a_link_is_not_opened(name, tmp_path):
    """SQLite would write into what the link leads to."""
    own = tmp_path / "own.db"
    own.touch()
    search_in(tmp_path / "tuned")
    (tmp_path / "tuned" / name).symlink_to(own)
    with pytest.raises(RunDirError, match=f"{name} is a link"):
        search_in(tmp_path / "tuned").study()
    assert own.read_bytes() == b""


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER endless AFTER INSERT ON trials BEGIN SELECT 1; END",
        "CREATE VIEW endless AS SELECT 1",
    ],
)
def test_a_study_that_brings_statements_is_not_opened(statement, tmp_path):
    """SQLite would run them, perhaps without an end."""
    search = search_in(tmp_path / "tuned")
    search.study()
    with contextlib.closing(sqlite3.connect(tmp_path / "tuned" / "study.db")) as connection:
        connection.execute(statement)
    with pytest.raises(RunDirError, match="views or triggers"):
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
    with pytest.raises(RunDirError, match="names another file"):
        search_in(tmp_path).study()
    assert own.exists()
    # One of a crash alone is played back.
    journal.write_bytes(played)
    assert search_in(tmp_path).study()
    assert not journal.exists()


@pytest.mark.parametrize("finals", [{"x": [1.0]}, {"0": ["x"]}, [1.0], {"0": None}])
def test_a_study_with_odd_finals_is_one_line(finals, tmp_path):
    search_in(tmp_path).study().set_user_attr(search.FINALS, finals)
    with pytest.raises(RunDirError, match="no search of this package"):
        search_in(tmp_path).study()


def test_a_study_of_other_settings_is_one_line(tmp_path):
    study = search_in(tmp_path).study()
    study.tell(study.ask(), 1.0)
    with pytest.raises(RunDirError, match="no search of this package"):
        search_in(tmp_path).study()


def test_folders_of_any_name_hold_their_study(tmp_path):
    path = tmp_path / "what?{is}%41this"
    search_in(path).study()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert (path / "study.db").exists()


def test_it_begins_with_the_configs_own_settings(tmp_path, monkeypatch):
    one = search_in(tmp_path)
    replay(
        monkeypatch, {f"trial-{n}": [0.0] for n in range(3)} | {"final-0": [0.0], "final-1": [0.0]}
    )
    study = one.study()
    one.run(study, 3, None)
    ppo = one.config.ppo
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
    study = one.study()
    one.run(study, 6, None)
    assert [trial.state for trial in study.get_trials()] == [COMPLETE] * 5 + [PRUNED]
    assert len(study.get_trials()[5].intermediate_values) < REPORTS


def test_the_finals_alone_name_the_best(tmp_path, monkeypatch):
    results = {"trial-0": [-9.0], "trial-1": [-1.0], "trial-2": [-3.0], "trial-3": [-4.0]}
    # By the mean of trial and finals, or by its best seed, it would be the second.
    results |= {"final-1": [-2.0, -8.0, -8.0], "final-2": [-5.0] * 3, "final-0": [-6.0] * 3}
    one = search_in(tmp_path)
    played = replay(monkeypatch, results)
    study = one.study()
    one.run(study, 4, None)
    assert played[4:] == ["final-1", "final-2", "final-0"], "two, and the first trial"
    assert one.finals(study) == {1: [-2.0, -8.0, -8.0], 2: [-5.0] * 3, 0: [-6.0] * 3}
    assert one.best(study).number == 2


def test_finalists_have_the_same_seeds_and_each_once(tmp_path, monkeypatch):
    asked: list[tuple[str, list[int]]] = []

    def train(self: Search, settings: Any, seeds: Any, name: str, trial: Any) -> list[float]:
        asked.append((name, list(seeds)))
        if name == "final-1":
            raise DivergedError("nothing of it is a number")
        return [0.0] * len(seeds)

    monkeypatch.setattr(Search, "_train", train)
    one = search_in(tmp_path)
    study = one.study()
    one.run(study, 2, None)
    first = search.FIRST_FINAL_SEED
    finals = [
        ("final-0", [first, first + 1, first + 2]),
        ("final-1", [first, first + 1, first + 2]),
    ]
    assert asked[2:] == finals
    assert one.finals(study)[1] == [-math.inf] * 3
    assert one.best(study).number == 0
    one.run(study, 2, None)
    assert asked[4:] == [], "nothing is left to do"
    more = dataclasses.replace(one, n_policies=5)
    more.run(study, 2, None)
    assert asked[4:] == [(name, [first + 3, first + 4]) for name, _ in finals]


def test_a_finalist_of_more_seeds_is_compared_on_those_of_all(tmp_path, monkeypatch):
    """Resumed with less time, the search has fewer seeds for the finalist that it finds then."""
    one = search_in(tmp_path, n_finalists=1)
    results = {"trial-0": [-9.0], "trial-1": [-1.0]}
    # With its third seed, which no other has had, trial 0 would be the best.
    results |= {"final-0": [-6.0, -6.0, 30.0], "final-1": [-5.0, -5.0, -5.0]}
    replay(monkeypatch, results)
    study = one.study()
    one.run(study, 1, None)
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
        study = one.study()
        one.run(study, 1, None)
    assert [math.isfinite(final) for final in one.finals(study)[0]] == [True, False, True]


def test_without_finalists_the_best_is_the_best_trial(tmp_path, monkeypatch):
    one = search_in(tmp_path, n_finalists=0)
    replay(monkeypatch, {"trial-0": [-9.0], "trial-1": [-1.0]})
    study = one.study()
    one.run(study, 2, None)
    assert one.best(study).number == 1


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
    played: list[str] = []
    last_seeds: list[int] = []

    def train(self: Search, settings: Any, seeds: Any, name: str, trial: Any) -> list[float]:
        played.append(name.partition("-")[0])
        last_seeds[:] = seeds
        now[0] += 5 * len(seeds)
        return [float(len(played))] * len(seeds)

    monkeypatch.setattr(Search, "_train", train)
    one = dataclasses.replace(search_in(tmp_path), quiet=False)
    study = one.study()
    one.run(study, None, seconds)
    left = max(0, seconds - 10 * names.count("trial"))
    assert f"no further trial: {left} s are left, and one more" in capsys.readouterr().out
    assert played == names
    assert len(last_seeds) == n_seeds
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
        study = one.study()
        one.run(study, 2, None)
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
                assert getattr(config.ppo, name) == value
        # At every tenth of 36 episodes, of which the last update begins with 30.
        assert len(trial.intermediate_values) == 8
        assert math.isfinite(trial.value)


def test_the_score_is_the_mean_over_the_policies():
    class Stub:
        def __init__(self, returns: list[float]) -> None:
            self.state = TrainingState(episodes=300, recent_returns=returns)

    assert score_of([Stub([1.0, 3.0]), Stub([6.0])]) == 4.0
    assert score_of([Stub([1.0]), Stub([])]) == -math.inf
    crashing = Stub([6.0])
    crashing.state.skipped_episodes = [1, 2, 3, 4]
    assert score_of([Stub([1.0, 3.0]), crashing]) == -math.inf


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ({"state": COMPLETE, "value": -3.456}, "-3.46"),
        (
            {"state": PRUNED, "intermediate_values": {1: -9.0, REPORTS // 2: -8.0}},
            "given up at 50%",
        ),
        ({"state": PRUNED}, "diverged"),
    ],
)
def test_a_trial_in_a_line(values, result):
    trial = optuna.trial.create_trial(**values)
    line = described(trial, {"learning_rate": 0.00123456})
    assert line.split() == ["trial", "-1", *result.split(), "learning-rate", "0.00123"]


def test_a_damaged_study_is_one_clear_line(tmp_path):
    (tmp_path / "study.db").write_bytes(b"no database" * 100)
    with pytest.raises(RunDirError, match=r"study\.db"):
        search_in(tmp_path).study()


def test_what_cannot_go_on_is_one_line():
    result = CliRunner().invoke(tune, ["--resume", "nowhere", "--trials", "1"])
    assert result.exit_code == 2
    assert "nowhere is no folder of tune's" in result.output.splitlines()[-1]


def resumed(path: Path, changes: dict[str, Any]) -> str:
    """The line with which an edited TUNE_FILE is refused; nothing else is in the folder after."""
    content = {"config": config_of().to_dict(), "ranges": {"learning_rate": [1e-4, 1e-2]}}
    content |= {"n_policies": 1, "finalists": 1, **changes}
    (path / TUNE_FILE).write_text(json.dumps(content))
    result = CliRunner().invoke(tune, ["--resume", str(path), "--trials", "1"])
    assert result.exit_code == 2, (result.output, result.exception)
    assert [file.name for file in path.iterdir()] == [TUNE_FILE]
    line = result.output.splitlines()[-1]
    assert str(path / TUNE_FILE) in line
    return line


def test_two_processes_do_not_search_in_one_folder(tmp_path, monkeypatch):
    """The second is refused, and the first ends as if it had been alone."""
    arguments = ["--env", "CartPole-v1", "--trials", "2", "--finalists", "0", "--quiet"]
    answers = []

    def meanwhile(self: Search, *arguments: Any) -> list[float]:
        answers.append(CliRunner().invoke(tune, ["--resume", str(tmp_path), "--trials", "3"]))
        return [1.0]

    monkeypatch.setattr(Search, "_train", meanwhile)
    result = CliRunner().invoke(tune, [*arguments, "--run-dir", str(tmp_path)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert len(answers) == 2
    for other in answers:
        assert other.exit_code == 2
        assert f"{tmp_path} is in use" in other.output.splitlines()[-1]
    trials = optuna.load_study(
        study_name="tune", storage=f"sqlite:///{tmp_path / 'study.db'}"
    ).get_trials()
    assert [trial.state for trial in trials] == [COMPLETE] * 2
    assert CliRunner().invoke(tune, ["--resume", str(tmp_path), "--trials", "2"]).exit_code == 0


def test_no_search_has_anything_called(tmp_path):
    path, called = tmp_path / "tuned", tmp_path / "called"
    path.mkdir()
    hostile = dataclasses.replace(config_of(), env="os:mkdir", env_args={"path": str(called)})
    assert "names the environment os:mkdir" in resumed(path, {"config": hostile.to_dict()})
    assert not called.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranges": "nonsense"}, "'str' object"),
        ({"ranges": {}}, "nothing to search"),
        ({"ranges": {"nonsense": [1, 2]}}, "'nonsense' is not one of learning_rate"),
        ({"ranges": {"learning_rate": [3, 1]}}, "learning_rate=3:1 is not"),
        ({"ranges": {"discount": [0.9, 2.0]}}, "discount=0.9:2 is not"),
        ({"ranges": {"epochs": [0.2, 0.4]}}, "epochs is 0.2"),
        ({"n_policies": 0}, "n_policies 0"),
        ({"n_policies": 10**9}, "n_policies 1000000000"),
        ({"finalists": -1}, "finalists -1"),
        ({"finalists": math.inf}, "infinity"),
    ],
)
def test_an_edited_search_is_refused_by_name(changes, message, tmp_path):
    assert message in resumed(tmp_path, changes)


def test_a_search_of_an_environment_that_is_gone_is_refused(tmp_path):
    gone = dataclasses.replace(config_of(), env="Nowhere-v0", env_args={})
    assert "Nowhere-v0 cannot be made" in resumed(tmp_path, {"config": gone.to_dict()})


def test_unrolls_are_refused_of_a_resumed_search_too(tmp_path):
    config = config_of(num_steps_per_env=5, n_envs=4)
    line = resumed(tmp_path, {"config": config.to_dict(), "n_policies": 2})
    assert "num_steps_per_env: 5 does not go with several policies" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--trials"),
        (["--trials", "0"], "--trials"),
        (["--minutes", "0"], "--minutes"),
        (["--trials", "1", "--range", "gamma=1:2"], "--range"),
        (["--trials", "1", "--range", "epochs=5:2"], "--range"),
        (["--trials", "1", "--range", "epochs=0.2:0.4"], "epochs is 0.2, but must be a whole"),
        (["--trials", "1", "--range", "minibatch-size=1:2"], "minibatch_size is 1, but must be 2"),
        (
            ["--trials", "1", "--preset", "continuous"],
            "--preset continuous (--batching first-come)",
        ),
        (["--trials", "1", "--init-from", "run"], "--init-from"),
        (["--trials", "1", "--cluster", "127.0.0.1:1", "--n-workers", "2"], "--cluster"),
    ],
)
def test_what_it_cannot_do_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(tune, ["--env", "CartPole-v1", *arguments])
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.iterdir())


def test_the_command_end_to_end(tmp_path):
    path = tmp_path / "tuned"
    arguments = ["--env", "CartPole-v1", "--total-steps", "2000", "--steps-per-update", "500"]
    arguments += ["--n-policies", "1", "--finalists", "1", "--range", "learning-rate=1e-4:1e-2"]
    result = CliRunner().invoke(tune, [*arguments, "--trials", "2", "--run-dir", str(path)])
    assert result.exit_code == 0, result.output
    settings = json.loads((path / "best.json").read_text())
    assert 1e-4 <= settings["learning_rate"] <= 1e-2
    assert f"--learning-rate {settings['learning_rate']:.6g}" in result.output
    assert (path / "optimization_history.png").exists()
    assert "Warning" not in result.output

    again = CliRunner().invoke(tune, [*arguments, "--trials", "2", "--run-dir", str(path)])
    assert again.exit_code == 2
    assert "not empty" in again.output
    on = ["--resume", str(path), "--trials", "3", "--quiet"]
    other = CliRunner().invoke(tune, [*on, "--learning-rate", "1e-3"])
    assert other.exit_code == 2
    assert "--learning-rate does not go with --resume" in other.output.splitlines()[-1]
    more = CliRunner().invoke(tune, [*on, "--n-workers", "1", "--worker-timeout", "50"])
    assert more.exit_code == 0, more.output
    config = read_config(path / "trial-2" / "policy-0")
    assert (config.n_workers, config.worker_timeout) == (1, 50)
