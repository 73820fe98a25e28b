import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.cbook import is_math_text

from workflow_rl.reporting.learning_curve import (
    as_drawn,
    learning_curve_figure,
    plot_learning_curve,
)
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.return_curves import returns_of_known_agents, running_mean


def rows(*updates: tuple[int, float]) -> list[dict[str, float]]:
    return [
        {
            **{"episodes": episodes, "env_steps": 100 * episodes, "wall_seconds": 2.0 * episodes},
            "return_mean": mean,
        }
        for episodes, mean in updates
    ]


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        # 100 episodes at -10, then 200 at -40: (100 * 10 + 200 * 40) / 300 = 30.
        (((100, -10.0), (300, -40.0)), [-10.0, -30.0]),
        # What is as old as the window is forgotten. An update that is larger still counts.
        (((300, -10.0), (600, -40.0)), [-10.0, -40.0]),
        (((1000, -10.0),), [-10.0]),
    ],
)
def test_running_mean_weighs_updates_by_their_episodes(updates, expected):
    assert running_mean(rows(*updates), 300) == pytest.approx(expected)


def with_steps(*updates: tuple[int, int, float]) -> list[dict[str, float]]:
    """Of so many episodes, steps and returns of 1 a step."""
    return [
        {
            **{"episodes": episodes, "env_steps": steps, "wall_seconds": 0.1 * steps},
            **{"return_mean": length, "episode_length_mean": length},
        }
        for episodes, steps, length in updates
    ]


def test_the_curve_of_a_short_run_ends_where_its_agent_does():
    # A tenth of 7,000 steps is less than two episodes of 500: the mean is of the least number, 10.
    metrics = with_steps((100, 2_000, 20.0), (110, 7_000, 500.0))
    figure = learning_curve_figure({"run": metrics})
    *_, smooth = figure.axes[0].lines
    assert list(smooth.get_ydata()) == [20.0, 500.0]
    assert figure.get_suptitle().startswith("run: mean return of the last 10 episodes")
    labels = ["episodes", "env steps", "wall time (seconds)"]
    assert [axes.get_xlabel() for axes in figure.axes] == labels
    lines = [axes.lines[0] for axes in figure.axes]
    assert [list(line.get_xdata()) for line in lines] == [[100, 110], [2000, 7000], [200, 700]]
    assert [list(line.get_ydata()) for line in lines] == [[20, 500]] * 3


def test_the_title_says_over_how_many_episodes_the_means_of_several_runs_are():
    short, long = with_steps((100, 2_000, 20.0)), with_steps((5_000, 100_000, 20.0))
    figure = learning_curve_figure({"short": short, "long": long})
    assert figure.get_suptitle().startswith("Mean return of the last 10 to 300 episodes")


@pytest.mark.parametrize("metrics", [[], rows((100, -10.0))])
def test_plot_is_a_png(tmp_path, metrics):
    plot_learning_curve(metrics, tmp_path / "curve.png", TrainConfig("async"))
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


KNOWN = {"sleep": -900.0, "restore": -500.0, "best": -12.5}


def test_other_agents_returns_are_lines_as_far_as_the_curves_reach_and_one_further():
    figure = learning_curve_figure({"run": rows((100, -300.0), (200, -30.0))}, KNOWN)
    for axes in figure.axes:
        drawn = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == ":"]
        assert drawn == [-500.0, -12.5]
        bottom, top = axes.get_ylim()
        assert -600 < bottom < -500
        assert -12.5 < top < -5
    texts = [text.get_text() for text in figure.axes[-1].texts]
    assert texts == ["restore: -500", "best: -12.5"]


def test_labels_of_returns_close_together_do_not_overlap():
    known = {f"agent {n}": -300.0 + n for n in range(4)} | {"same": -300.0}
    figure = learning_curve_figure({"run": rows((100, -400.0), (200, -30.0))}, known)
    heights = [text.xy[1] for text in figure.axes[-1].texts]
    assert len(heights) == 4
    assert min(after - before for before, after in pairwise(heights)) > 0.045
    assert figure.axes[-1].texts[0].get_text() == "agent 0, same: -300"


def test_one_run_has_a_line_for_each_kind_of_episode():
    metrics = rows((100, -30.0), (200, -10.0))
    metrics[0] |= {"return_mean_A": -31.0, "return_mean_B": math.nan}
    metrics[1] |= {"return_mean_A": -11.0, "return_mean_B": -2.0}
    figure = learning_curve_figure({"run": metrics})
    lines = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines[1:]}
    assert lines["A"] == [-31.0, -11.0]
    assert math.isnan(lines["B"][0])
    assert lines["B"][1] == -2.0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["all", "A", "B"]
    assert figure.get_suptitle().startswith("run: ")
    # One kind alone, and several runs.
    assert not learning_curve_figure({"run": rows((9, -1.0))}).legends
    several = learning_curve_figure({"one": metrics, "other": metrics})
    assert [text.get_text() for text in several.legends[0].get_texts()] == ["one", "other"]


def test_returns_that_span_little_are_drawn_in_proportion():
    figure = learning_curve_figure({"run": rows((100, -25.0), (200, -12.0))})
    assert figure.axes[0].get_yscale() == "linear"
    assert figure.axes[0].get_ylim()[1] < -10


def test_what_is_known_is_that_of_the_red_agent_and_the_length():
    def known(**args):
        return returns_of_known_agents(TrainConfig("async", env_args=args))

    assert known()["champion"] == -12.43
    assert known(max_steps=30)["champion"] == -3.4
    assert known(red_agent="RedMeanderAgent")["react-restore"] == -197.1
    assert known(red_agent="mixed")["champion"] == pytest.approx((-12.43 - 15.27) / 3, abs=0.01)
    assert known(max_steps=40) == {}
    assert not returns_of_known_agents(TrainConfig("async", env="CartPole-v1"))


NAMES = ["from_$5_to_$9", "$", r"\$x$", "_hidden", "\udcff", "a\nb", "100%", r"\frac"]


def test_runs_of_any_names_are_drawn_under_them(tmp_path):
    figure = learning_curve_figure({name: rows((9, -1.0)) for name in NAMES})
    figure.savefig(tmp_path / "all.png")
    shown = [text.get_text().strip().replace(r"\$", "$") for text in figure.legends[0].get_texts()]
    assert shown == [name.replace("\udcff", r"\udcff") for name in NAMES]
    learning_curve_figure({"$\udcff\n%": rows((9, -1.0))}).savefig(tmp_path / "one.png")


def test_a_missing_glyph_of_a_name_commands_no_terminal(recwarn, tmp_path):
    figure = learning_curve_figure({"\x1b[2J\x07\x9b": rows((9, -1.0)), "b": rows((9, -1.0))})
    figure.savefig(tmp_path / "picture.png")
    assert not [sign for warned in recwarn for sign in str(warned.message) if sign < " "]
    assert r"\x1b[2J\x07\x9b" in [text.get_text() for text in figure.legends[0].get_texts()]


@given(st.text(st.sampled_from("$\\_{}^ab\udc80"), max_size=8))
def test_no_name_is_a_formula_or_hidden(name):
    drawn = as_drawn(name)
    assert not is_math_text(drawn)
    assert not drawn.startswith("_")
    assert drawn.replace(r"\$", "$").strip() == name.replace("\udc80", r"\udc80").strip()
