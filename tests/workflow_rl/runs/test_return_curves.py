import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.reporting.learning_curve import learning_curve_figure
from workflow_rl.runs.return_curves import (
    groups_of,
    n_recent,
    on_one_axis,
    running_mean,
    verdict,
    warn_of_short_runs,
    window_of,
    with_returns,
)


def rows(*means: float) -> list[dict[str, float]]:
    return [
        {"episodes": 10.0 * n, "env_steps": 100.0 * n, "return_mean": mean}
        for n, mean in enumerate(means, 1)
    ]


def test_runs_without_a_return_are_left_out_with_a_warning(caplog):
    runs = {"good": rows(1.0, 2.0), "early": [], "none ended": rows(math.nan)}
    assert list(with_returns(runs)) == ["good"]
    assert [record.args for record in caplog.records] == [("early",), ("none ended",)]
    assert list(with_returns({"early": []})) == ["early"]
    x, returns = on_one_axis(list(runs.values()), "episodes")
    assert (x[0], x[-1], len(returns)) == (10, 20, 1)
    # Two that have one place in common, and none.
    x, returns = on_one_axis([rows(1.0), rows(2.0, 3.0)], "episodes")
    assert (set(x), returns.mean(axis=1).tolist()) == ({10.0}, [1.0, 2.0])
    assert on_one_axis([rows(1.0), rows(math.nan, 3.0)], "episodes")[0].size == 0


def test_a_run_that_cuts_the_curve_of_its_group_is_named(caplog):
    runs = {"long": rows(*[0.0] * 20), "short": rows(0.0, 0.0), "nearly": rows(*[0.0] * 19)}
    warn_of_short_runs(runs, [["long", "nearly"], ["short"]])
    assert not caplog.records
    warn_of_short_runs(runs, [["long", "short", "nearly"]])
    assert "where short does: after 20 episodes, of 200" in caplog.text


def test_a_verdict_names_the_agents_on_both_sides():
    known = {"champion": -12.4, "random": -725.4, "react": -517.5}
    assert verdict(-18.7, known) == "better than react (-517.5), not as good as champion (-12.4)"
    assert verdict(-800, known) == "worse than every known agent; the weakest is random (-725.4)"
    assert verdict(-10, known) == "better than every known agent; the best is champion (-12.4)"
    assert verdict(-10, {}) is None


def test_an_agent_within_the_margin_is_about_as_good():
    known = {"react": -517.5, "champion": -12.4}
    words = "about as good as react (-517.5), not as good as champion (-12.4)"
    assert verdict(-516.4, known, 30.0) == words
    assert verdict(-530.0, known, 30.0) == words
    assert verdict(-12.0, known, 1.0) == "about as good as champion (-12.4)"
    # Several within the margin: none of them is called better.
    assert verdict(0.0, {"sleep": 0.0, "react": 0.0}, 0.0) == "about as good as sleep (0.0)"
    assert verdict(-1.0, {"a": -1.5, "b": -0.6, "c": 0.0}, 1.1) == "about as good as b (-0.6)"


@pytest.mark.parametrize(
    ("episodes", "env_steps", "length", "expected"),
    [
        *((0, 0, 0.0, 10), (4, 4_000, 1_000.0, 10)),  # A handful: all of them.
        (100, 100_000, 1_000.0, 10),
        (1_000, 200_000, 200.0, 100),  # A tenth, where all episodes are of one length.
        *((3_000, 300_000, 100.0, 300), (50_000, 5_000_000, 100.0, 300)),
        (336, 32_887, 450.0, 10),  # Episodes that grow: a tenth of the steps are 7 of them.
        (2_000, 100_000, 80.0, 125),
        (600, 100_000, 80.0, 60),  # Episodes that shrink: a tenth of the episodes are fewer.
    ],
)
def test_a_mean_return_is_over_a_tenth_of_the_run(episodes, env_steps, length, expected):
    assert n_recent(episodes, env_steps, length) == expected
    row = {"episodes": episodes, "env_steps": env_steps, "return_mean": 0.0}
    assert window_of([{**row, "episode_length_mean": length}]) == expected
    # No episode ended in the last update, as with unrolls.
    rows = [{**row, "episode_length_mean": one} for one in (length, math.nan)]
    assert window_of(rows) == expected


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.integers(1, 400), st.floats(-1e6, 1e6)),
        min_size=1,
        max_size=12,
    )
)
def test_the_last_mean_is_that_of_the_last_episodes(updates):
    """Against the returns of the episodes one by one, in whole updates."""
    metrics: list[dict[str, float]] = []
    episodes, steps, returns = 0, 0, list[list[float]]()
    for count, length, mean in updates:
        episodes, steps = episodes + count, steps + count * length
        row = {"episodes": episodes, "env_steps": steps, "return_mean": mean}
        metrics.append({**row, "episode_length_mean": length})
        returns.append([mean] * count)
    window, chosen = window_of(metrics), list[float]()
    assert 10 <= window <= 300
    assert window <= max(10, episodes / 10)
    for of_update in reversed(returns):
        if chosen and len(chosen) + len(of_update) > window:
            break
        chosen += of_update
    assert running_mean(metrics)[-1] == pytest.approx(sum(chosen) / len(chosen), abs=1e-6)


def test_many_equal_rows_take_no_longer():
    row = {"episodes": 500.0, "env_steps": 5000.0, "return_mean": 3.0}
    assert running_mean([row] * 50_000) == [3.0] * 50_000


def test_rows_of_an_older_version_have_a_window():
    assert window_of([]) == 10
    assert window_of(rows(*[0.0] * 20)) == 20


def test_runs_that_differ_in_seed_and_workers_are_one_group():
    configs = [
        {"lr": 1, "seed": 0, "n_workers": 2},
        {"lr": 2, "seed": 0, "n_workers": 2},
        {"lr": 1, "seed": 1, "n_workers": 4},
    ]
    names = ["a/seed-0", "b", "a/seed-1"]
    assert groups_of(names, configs) == {"a/ (2 seeds)": [0, 2], "b": [1]}


def test_runs_of_one_seed_compare_something_else():
    """Such as a number of workers, or a start from another run's agent."""
    names = ["w1-s0", "w2-s0", "w1-s1", "w2-s1"]
    configs = [{"lr": 1, "seed": n // 2, "n_workers": 1 + n % 2} for n in range(4)]
    assert groups_of(names, configs) == {"w1-s (2 seeds)": [0, 2], "w2-s (2 seeds)": [1, 3]}
    again = [{"lr": 1, "seed": 0, "n_workers": 1}] * 2
    assert groups_of(["a", "b"], again) == {"a": [0], "b": [1]}
    warm = [{"seed": n, "init_from": n == 1} for n in range(2)]
    assert groups_of(["cold", "warm"], warm) == {"cold": [0], "warm": [1]}


def test_a_group_is_drawn_as_its_mean_with_a_band():
    def run(level: float) -> list[dict[str, float]]:
        counts = {"episodes": 300, "env_steps": 3000, "wall_seconds": 1.0}
        rows = [{name: n * one for name, one in counts.items()} for n in (1, 2, 3)]
        return [{**row, "return_mean": level} for row in rows]

    runs = {"seed-0": run(1.0), "seed-1": run(3.0), "other": run(7.0)}
    groups = {"two": ["seed-0", "seed-1"], "other": ["other"]}
    figure = learning_curve_figure(runs, groups=groups)
    axes = figure.axes[0]
    drawn = {line.get_label(): np.asarray(line.get_ydata())[-1] for line in axes.get_lines()}
    assert (drawn["two"], drawn["other"]) == (2.0, 7.0)
    (band,) = axes.collections
    # Half of the interval of 1 and 3: 12.7062 * sqrt(2) / sqrt(2).
    low, high = band.get_paths()[0].get_extents().intervaly
    assert (low, high) == pytest.approx((2 - 12.7062, 2 + 12.7062))
