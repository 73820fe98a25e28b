import dataclasses
import json
import math
import shutil

import pytest

from tests.cli import call, refused
from tests.workflow_rl.studies.population_runs import EXCHANGE, N_POLICIES, configs_of, run
from workflow_rl.errors import UserError
from workflow_rl.reporting.policies_figure import figure_of_folder
from workflow_rl.runs.checkpoint import load_checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import (
    POPULATION_FILE,
    can_go_on,
    population_of,
    population_record,
    runs_in,
)
from workflow_rl.runs.several_policies import (
    PopulationRecord,
    begin_population,
    policy_folder,
    read_population,
    unfinished_population,
)


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
    told = "only the file names the environment os:mkdir"
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
