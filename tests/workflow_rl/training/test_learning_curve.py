import pytest

from workflow_rl.training.learning_curve import (
    learning_curve_figure,
    plot_learning_curve,
    running_mean,
)


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
