"""What a population's folder says is checked, and nothing that only it names is called."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil

import pytest
from click.testing import CliRunner

from tests.workflow_rl.studies.population_runs import EXCHANGE, N_POLICIES, configs_of, run
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.commands.train_population import train_population
from workflow_rl.errors import UserError
from workflow_rl.reporting.policies_figure import figure_of_folder
from workflow_rl.runs.checkpoint import load_checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.run_record import POPULATION_FILE
from workflow_rl.runs.several_policies import policy_folder, read_population


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
    with pytest.raises(UserError, match=POPULATION_FILE):
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
    with pytest.raises(UserError, match=POPULATION_FILE):
        read_population(tmp_path)


def test_no_policy_of_a_run_has_anything_called(tmp_path):
    path, called = tmp_path / "run", tmp_path / "called"
    run(path, configs_of(2, total_episodes=6))
    checkpoint = load_checkpoint(policy_folder(path, 1) / "checkpoint.safetensors")
    ppo = TrainConfig.from_dict(checkpoint.config).settings
    hostile = TrainConfig("async", env="os:mkdir", env_args={"path": str(called)}, settings=ppo)
    checkpoint = dataclasses.replace(checkpoint, config=hostile.to_dict())
    save_checkpoint(policy_folder(path, 1) / "checkpoint.safetensors", checkpoint)
    result = CliRunner().invoke(train_async, ["--resume", str(path)])
    assert result.exit_code == 2
    assert "only the file names the environment os:mkdir" in result.output
    assert not called.exists()
