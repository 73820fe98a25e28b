"""What the folder of several policies says: which runs are in it, and how they ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import can_go_on, population_of, population_record, runs_in
from workflow_rl.runs.several_policies import (
    PopulationRecord,
    begin_population,
    policy_folder,
    unfinished_population,
)


def test_a_folder_says_which_runs_are_in_it(tmp_path: Path) -> None:
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


def test_a_population_goes_on_from_its_beginning_and_a_run_from_a_checkpoint(
    tmp_path: Path,
) -> None:
    run, population = tmp_path / "run", tmp_path / "population"
    run.mkdir()
    (run / "config.json").touch()
    assert not can_go_on(run)
    (run / "checkpoint.safetensors").touch()
    assert can_go_on(run)
    begin_population(population, PopulationRecord([TrainConfig("async").to_dict()]))
    assert can_go_on(population)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("the loss is inf"), "the loss is inf"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_an_interrupted_population_says_why(
    error: BaseException, reason: str, tmp_path: Path
) -> None:
    summary = tmp_path / "summary.json"
    with pytest.raises(type(error)), unfinished_population(tmp_path):
        raise error
    assert json.loads(summary.read_text()) == {"finished": False, "reason": reason}
    with unfinished_population(tmp_path):
        assert not summary.exists()


def test_a_population_whose_folder_is_gone_is_interrupted_without_a_second_error(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(ValueError, match="the loss is inf"),
        unfinished_population(tmp_path / "gone"),
    ):
        raise ValueError("the loss is inf")
    assert not (tmp_path / "gone").exists()
