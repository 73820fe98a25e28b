from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow_rl.commands.main import main
from workflow_rl.commands.plot import plot
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.metrics import METRICS
from workflow_rl.runs.run_dir import RunDir


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


def test_the_picture_of_several_runs_lies_beside_them(tmp_path):
    result = CliRunner().invoke(plot, [a_run(tmp_path / name) for name in ("first", "second")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


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


def test_labels_that_do_not_fit(tmp_path):
    runs = [a_run(tmp_path / name) for name in ("first", "second")]
    result = CliRunner().invoke(plot, [*runs, "--label", "one", "--label", "one"])
    assert result.exit_code == 2
    line = result.output.strip().splitlines()[-1]
    assert "--label" in line
    assert "one for each line" in line
    assert not (tmp_path / "learning_curve.png").exists()


def test_an_output_that_cannot_be_written(tmp_path):
    output = tmp_path / "no" / "folder.png"
    result = CliRunner().invoke(plot, [a_run(tmp_path / "run"), "--output", str(output)])
    assert result.exit_code == 2
    assert "--output" in result.output


@pytest.mark.parametrize(
    ("name", "start"), [("x.pdf", b"%PDF"), ("x.svg", b"<?xml"), ("x.PNG", b"\x89PNG")]
)
def test_the_name_says_the_format(tmp_path, name, start):
    result = CliRunner().invoke(
        plot, [a_run(tmp_path / "run"), "--output", str(tmp_path / name)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("command", "option", "right"),
    [
        (["plot", "run"], "--output", ".png or .pdf or .svg"),
        (["evaluate", "sleep"], "--json", ".json"),
        (["benchmark"], "--png", ".png"),
        (["benchmark"], "--json", ".json"),
        (["replay", "sleep"], "--output", ".html"),
        (["report", "run"], "--output", ".html"),
        (["train-async"], "--trace", ".json"),
        (["export", "champion", "--format", "onnx"], "--output", ".onnx"),
        (["export", "champion", "--format", "npz"], "--output", ".npz"),
    ],
)
def test_a_name_that_says_another_format_is_refused(tmp_path, command, option, right):
    result = CliRunner().invoke(main, [*command, option, str(tmp_path / "x.gif")])
    assert result.exit_code == 2
    last = result.output.strip().splitlines()[-1]
    assert option in last
    assert f"x.gif: give a name that ends in {right}" in last
    assert not list(tmp_path.iterdir())
