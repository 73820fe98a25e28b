from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow_rl.commands.plot import plot
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import METRICS, RunDir


def a_run(path: Path) -> str:
    with RunDir(path, TrainConfig("async")) as run:
        for update in (1, 2):
            run.log({**dict.fromkeys(METRICS, 1.0), "update": update, "episodes": 24 * update})
    return str(path)


def test_command_draws_one_run_in_its_folder(tmp_path):
    result = CliRunner().invoke(plot, [a_run(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_command_compares_runs(tmp_path):
    runs = [a_run(tmp_path / name) for name in ("first", "second")]
    result = CliRunner().invoke(plot, [*runs, "--output", str(tmp_path / "both.png")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "first" / "learning_curve.png").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nothing", "--output", "a.png"], "nothing is not a run folder"),
        ([], "RUNS"),
    ],
)
def test_mistakes(arguments, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(plot, arguments)
    assert result.exit_code == 2
    assert part in result.output.strip().splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_an_output_that_cannot_be_written(tmp_path):
    output = tmp_path / "no" / "folder.png"
    result = CliRunner().invoke(plot, [a_run(tmp_path / "run"), "--output", str(output)])
    assert result.exit_code == 2
    assert "--output" in result.output
