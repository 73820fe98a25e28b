import dataclasses
import json
import math
import re
import shutil
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from tests.any_envs import SeedEnv
from tests.cli import CART_POLE, call, refused, said_by
from tests.tiny_runs import config_of
from tests.workflow_rl.studies.population_runs import EXCHANGE, N_POLICIES, SHORT, configs_of, run
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.errors import UserError
from workflow_rl.runs.checkpoint import save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import (
    POPULATION_FILE,
    can_go_on,
    population_of,
    population_record,
    read_metrics,
    runs_in,
)
from workflow_rl.runs.learner import Learner
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.several_policies import (
    PopulationRecord,
    begin_population,
    policy_folder,
    read_population,
    unfinished_population,
)
from workflow_rl.runs.training_state import TrainingState
from workflow_rl.studies.policies_figure import figure_of_folder
from workflow_rl.studies.population import Population


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        *({"configs": configs, "meetings": []} for configs in ([], [{"mode": "async"}], 3)),
    ],
)
def test_a_damaged_record_is_one_clear_line(content, tmp_path):
    if isinstance(content, dict):
        content = json.dumps({**content, "exchange": None})
    (tmp_path / POPULATION_FILE).write_text(content)
    with pytest.raises(UserError, match=POPULATION_FILE):
        read_population(tmp_path)
    for command in ("train-async", "train-population"):
        refused(call(command, "--resume", tmp_path), POPULATION_FILE)


OTHERS = [{"nonsense": 1.0}] * N_POLICIES
INVALID = [{"learning_rate": -1.0, "discount": 0.9}] * N_POLICIES


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        *(("meetings", one) for one in ({"scores": [0.0]}, {"copies": [[0, 9]]}, {"at": -1})),
        *(("meetings", one) for one in ({"scores": [10**400] * N_POLICIES}, {"at": 10**400})),
        *(("meetings", one) for one in ({"at": math.inf}, {"settings": []})),
        *(("meetings", one) for one in ({"settings": OTHERS}, {"settings": INVALID})),
        ("exchange", {}),
        ("exchange", [1]),
        ("exchange", {**EXCHANGE.to_dict(), "nonsense": 1}),
        ("exchange", {**EXCHANGE.to_dict(), "ranges": {"learning_rate": 3}}),
        ("exchange", {**EXCHANGE.to_dict(), "period": "12"}),
        ("exchange", {**EXCHANGE.to_dict(), "period": 0}),
    ],
)
def test_meetings_of_others_and_settings_that_make_no_sense_are_refused(
    part, wrong, population, tmp_path
):
    values = json.loads((population / POPULATION_FILE).read_text())
    if part == "meetings":
        values["meetings"] = [{**values["meetings"][0], **wrong}]
    else:
        values |= {"exchange": wrong, "meetings": []}
    (tmp_path / POPULATION_FILE).write_text(json.dumps(values))
    with pytest.raises(UserError, match=POPULATION_FILE):
        read_population(tmp_path)


@pytest.mark.parametrize(
    ("damage", "why"), [("no rows", "is not of the population"), ("no such column", "env_steps")]
)
def test_a_picture_of_meetings_that_members_have_not_come_to(damage, why, population, tmp_path):
    path = shutil.copytree(population, tmp_path / "run")
    file = path / "policy-1" / "metrics.csv"
    heading, _, rows = file.read_text().partition("\n")
    if damage == "no rows":
        file.write_text(f"{heading}\n")
    else:
        file.write_text(f"{heading.replace('env_steps', 'other')}\n{rows}")
    with pytest.raises(UserError, match=rf"policy-1/metrics\.csv .*{why}"):
        figure_of_folder(path)


def test_no_policy_of_a_run_has_anything_called(tmp_path):
    path, called = tmp_path / "run", tmp_path / "called"
    run(path, configs_of(2, total_episodes=6))
    checkpoint = load_checkpoint(policy_folder(path, 1) / "checkpoint.safetensors")
    ppo = TrainConfig.from_dict(checkpoint.config).settings
    hostile = TrainConfig("async", env="os:mkdir", env_args={"path": str(called)}, settings=ppo)
    checkpoint = dataclasses.replace(checkpoint, config=hostile.to_dict())
    save_checkpoint(policy_folder(path, 1) / "checkpoint.safetensors", checkpoint)
    told = "only the file mentions the environment os:mkdir"
    refused(call("train-async --resume", path), told)
    assert not called.exists()


def test_a_folder_says_which_runs_are_in_it(tmp_path):
    alone, population = tmp_path / "alone", tmp_path / "population"
    alone.mkdir()
    record = PopulationRecord([TrainConfig("async", env="CartPole-v1").to_dict()] * 2)
    begin_population(population, record)
    members = [policy_folder(population, number) for number in range(2)]
    assert runs_in(alone, population) == [alone, *members]
    assert population_record(alone) is None
    assert population_record(population) == record
    assert population_of(alone) is None
    assert population_of(members[1]) == population.resolve()


def test_a_population_goes_on_from_its_beginning_and_a_run_from_a_checkpoint(tmp_path):
    run, population = tmp_path / "run", tmp_path / "population"
    run.mkdir()
    (run / "config.json").touch()
    assert not can_go_on(run)
    (run / "checkpoint.safetensors").touch()
    assert can_go_on(run)
    begin_population(population, PopulationRecord([TrainConfig("async").to_dict()]))
    assert can_go_on(population)


@pytest.mark.parametrize("folder", [".", "gone"])
@pytest.mark.parametrize("error", [ValueError("the loss is inf"), KeyboardInterrupt()])
def test_an_interrupted_population_says_why(error, folder, tmp_path):
    """Without a second error where its folder is gone."""
    summary = tmp_path / folder / "summary.json"
    with pytest.raises(type(error), match=str(error)), unfinished_population(tmp_path / folder):
        raise error
    if folder == "gone":
        assert not [*tmp_path.iterdir()]
        return
    reason = str(error) or "KeyboardInterrupt"
    assert json.loads(summary.read_text()) == {"finished": False, "reason": reason}
    with unfinished_population(tmp_path):
        assert not summary.exists()


BY_EVALUATION = EXCHANGE.changed(rank_by="evaluation")


def test_members_may_be_ranked_by_evaluations(tmp_path, monkeypatch):
    scores = iter([0, 1, 2, math.nan, 4, 5, 6, 7])
    monkeypatch.setattr(Learner, "evaluate", lambda *arguments: float(next(scores)))
    run(tmp_path / "run", configs_of(N_POLICIES, exchange=BY_EVALUATION), exchange=BY_EVALUATION)
    meetings = read_population(tmp_path / "run").meetings
    assert [meeting.scores for meeting in meetings] == [[0, 1, 2, -math.inf], [4, 5, 6, 7]]


def test_members_are_ranked_on_the_same_episodes(tmp_path):
    """Whose returns follow from their seeds alone, so that nobody is better than another."""
    env = {"env": "seeds", "env_args": {}, "make_env": SeedEnv}
    configs = configs_of(3, BY_EVALUATION, **env, eval_every=1, eval_episodes=2)
    run(tmp_path / "run", configs, exchange=BY_EVALUATION)
    meetings = read_population(tmp_path / "run").meetings
    assert [len(set(meeting.scores)) for meeting in meetings] == [1, 1]
    assert [meeting.copies for meeting in meetings] == [[], []]
    # Nor are they those that choose each member's best.
    chosen_on = {read_metrics(one)[0]["eval_return_mean"] for one in runs_in(tmp_path / "run")}
    assert len(chosen_on) == 3
    assert not chosen_on & set(meetings[0].scores)


def test_members_are_ranked_by_their_last_100_episodes(population):
    class Stub:
        def __init__(self, returns: list[float]) -> None:
            self.state = TrainingState(recent_returns=deque(returns))
            self.config = config_of()

    ranked = Population(population, read_population(population), [])
    assert ranked.score(Stub([-50.0] * 200 + [-1.0] * 100)) == -1.0
    assert ranked.score(Stub([-3.0, -5.0])) == -4.0
    assert ranked.score(Stub([])) == -math.inf
    lucky = Stub([-20.0] * 28 + [-10.0] * 29 + [0.0] * 43)
    for red_agent, n in zip(RED_AGENTS, (28, 29, 43), strict=True):
        lucky.state.recent_variants.extend([red_agent] * n)
    assert ranked.score(lucky) == -10, "not because harmless attackers were drawn more often"
    crashing = Stub([-1.0] * 100)
    crashing.state.episodes, crashing.state.skipped_episodes = 150, [49, 120]
    assert ranked.score(crashing) == -1.0, "one in a hundred"
    crashing.state.skipped_episodes = [119, 120]
    assert ranked.score(crashing) == -math.inf


def test_the_help_names_the_settings_that_may_have_a_range():
    text = " ".join(said_by("train-population --help").split())
    assert "One of learning-rate, entropy-coef," in text
    assert "{" not in text


def test_a_setting_that_is_given_differs_between_no_members():
    options = "--n-policies 2 --learning-rate 0.003 --dry-run"
    shown = said_by("train-population", CART_POLE, options)
    assert "learning_rate: 0.003  # option\n" in shown
    assert re.search(r"^entropy_coef: .*  # drawn$", shown, re.MULTILINE)
    assert "gae_lambda: 0.95  # environment\n" in shown


def test_the_commands_end_to_end(tmp_path):
    """Train, be told so, resume what is finished with more, evaluate and plot the folder."""
    path = tmp_path / "not there yet" / "run"
    train = ["train-population", SHORT, "--n-policies 3 --period 300 --quiet --run-dir", path]
    said = said_by(*train)
    assert "meetings: " in said
    best = json.loads((path / "summary.json").read_text())["best_policy"]
    assert f"of policy {best}" in said
    of_policy = (policy_folder(path, best) / "best.safetensors").read_bytes()
    assert (path / "best.safetensors").read_bytes() == of_policy
    assert (path / "learning_curve.png").stat().st_size > 10_000

    resume = ["train-population --quiet --resume", path]
    assert "--total-steps" in said_by(*resume)
    refused(call("train-async --resume", path), "train-population")
    said_by(*resume, "--total-steps 1500 --n-policies 2", code=2)
    said_by(*resume, "--total-steps 1500")
    assert read_metrics(policy_folder(path, 2))[-1]["env_steps"] >= 1500

    said_by("evaluate", path, "--episodes 3 --quiet")
    said_by("plot", path, "--output", tmp_path / "plot.png")
    said_by("report", path, "--output", tmp_path / "report.html")
    assert "policy-2" in (tmp_path / "report.html").read_text()
    refused(call("verify", path), "policy-0")
    refused(call(*train), "not empty")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "run"
    said_by("train-population", SHORT, "--n-policies 2 --quiet --run-dir", path)
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--period 7", "--period is not what"),
        ("--range discount=0.9:0.99", "--range is not what"),
        ("--init-from runs/other", "--init-from runs/other does not go with --resume"),
    ],
)
def test_what_a_resumed_population_would_ignore_is_refused(options, message, trained):
    resume = ["train-population --total-steps 1800 --resume", trained]
    refused(call(*resume, options), message)
    own = read_population(trained).exchange["period"]
    said_by(*resume, f"--period {own} --dry-run")


def test_a_member_does_not_go_on_alone(trained):
    resume = ["train-async --total-steps 1800 --quiet --resume", policy_folder(trained, 1)]
    said = " ".join(said_by(*resume, code=2).split())
    assert f"resumed as a whole: {trained}, with" in said


def test_stopped_after_its_last_update_it_is_finished_by_resuming(trained, tmp_path, monkeypatch):
    path = shutil.copytree(trained, tmp_path / "run")

    def full(*arguments: Any) -> None:
        raise UserError("the disk is full")

    resume = ["train-population --quiet --resume", path]
    with monkeypatch.context() as patch:
        patch.setattr("workflow_rl.runs.several_policies.finish_population", full)
        said_by(*resume, "--total-steps 1200", code=2)
    said_by(*resume)
    summary = json.loads((path / "summary.json").read_text())
    assert all(one["env_steps"] >= 1200 for one in summary["policies"])
