from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow_rl.measuring.plotting import (
    learning_curve_figure,
    plot,
    plot_learning_curve,
    running_mean,
)
from workflow_rl.training.config import TrainConfig
from workflow_rl.training.run_dir import METRICS, RunDir


def rows(*updates: tuple[int, float]) -> list[dict[str, float]]:
    return [
        {"episodes": episodes, "return_mean": mean, "wall_seconds": 2.0 * episodes}
        for episodes, mean in updates
    ]


def test_running_mean_weighs_updates_by_their_episodes():
    # 100 episodes at -10, then 200 at -40: (100 * 10 + 200 * 40) / 300 = 30.
    assert running_mean(rows((100, -10.0), (300, -40.0))) == pytest.approx([-10.0, -30.0])


def test_running_mean_forgets_what_is_300_episodes_old():
    assert running_mean(rows((300, -10.0), (600, -40.0)))[-1] == -40.0
    # An update larger than the window still counts.
    assert running_mean(rows((1000, -10.0)))[-1] == -10.0


def test_curve_is_drawn_against_episodes_and_wall_time():
    figure = learning_curve_figure({"run": rows((100, -10.0), (200, -5.0))})
    by_episodes, by_seconds = figure.axes
    assert list(by_episodes.lines[0].get_xdata()) == [100, 200]
    assert list(by_seconds.lines[0].get_xdata()) == [200.0, 400.0]
    assert list(by_seconds.lines[0].get_ydata()) == [-10.0, -5.0]


@pytest.mark.parametrize("metrics", [[], rows((100, -10.0))])
def test_plot_is_a_png(tmp_path, metrics):
    plot_learning_curve(metrics, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


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
