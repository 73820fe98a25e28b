"""Tables and figure of a comparison of modes, of given rows."""

from __future__ import annotations

import math

import numpy as np

from workflow_rl.measuring.compare_modes_report import alf_table, modes_figure, modes_table

ROW = {
    "mode": "lag-1",
    "n_seeds": 5,
    "episodes_per_second": 812.34,
    "eps": 830.0,
    "seconds_per_update": 0.0289,
    "worker_utilisation": 0.5,
    "learner_idle": 0.125,
    "policy_lag_mean": 0.99,
    "policy_lag_max": 1,
    "stale_fraction": 0.0,
    "dropped_steps": 2400,
    "return_mean_recent": -18.64,
    "target_return": -60.0,
    "seeds_at_target": 4,
    "episodes_to_target": 768,
    "seconds_to_target": 1.5,
    "episodes_to_target_x_async": 1.032,
    "seconds_to_target_x_async": 0.5,
}


def cells(table) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in str(table).splitlines()
        if line.startswith("│")
    ]


def test_a_line_a_mode():
    never = ROW | {"episodes_to_target": None, "seconds_to_target": None}
    alone = ROW | {"episodes_to_target_x_async": None, "seconds_to_target_x_async": None}
    heading, first, second, third = cells(modes_table([ROW, never, alone]))
    assert heading[0] == "mode"
    assert heading[-3] == "reach -60"
    assert first == [
        *("lag-1", "812.3", "0.0289", "830.0", "50.0%", "12.5%", "1.0, max 1", "0.0%", "2400"),
        *("-18.6", "4 of 5", "768 (1.03 x)", "1.50 (0.50 x)"),
    ]
    assert second[-2:] == ["not reached"] * 2
    assert third[-2:] == ["768", "1.50"]


def test_a_mode_in_which_no_episode_ended():
    _, row = cells(modes_table([ROW | {"return_mean_recent": None}]))
    assert row[9] == "no episode ended"


def test_alfs_table():
    row = {
        "envs_per_actor": 32,
        "sync_seconds_per_update": 0.05,
        "sync_eps": 640.0,
        "async_seconds_per_update": 0.02,
        "async_eps": 1600.0,
        "ratio": 2.5,
    }
    assert cells(alf_table([row]))[1] == ["32", "0.0500", "640.0", "0.0200", "1600.0", "2.50"]


def rows(*returns: float, seconds: float = 1.0) -> list[dict[str, float]]:
    return [
        {"episodes": 100 * number, "return_mean": mean, "wall_seconds": seconds * number}
        for number, mean in enumerate(returns, start=1)
    ]


def test_figure_has_median_and_band_over_seeds_against_episodes_and_wall_time():
    seeds = [rows(-90.0, -30.0), rows(-80.0, -20.0, seconds=1.2), rows(-100.0, -10.0, seconds=1.5)]
    figure = modes_figure({"async": seeds, "lag-1-vtrace": seeds[:1]}, -60.0)
    by_episodes, by_seconds = figure.axes
    median = by_episodes.lines[0]
    assert median.get_label() == "async"
    np.testing.assert_allclose(np.asarray(median.get_xdata())[[0, -1]], [100, 200])
    np.testing.assert_allclose(np.asarray(median.get_ydata())[[0, -1]], [-90.0, -20.0])
    band = by_episodes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (-100.0, -10.0)
    # All have a return from 1.5 s, where the last begins, to 2 s, where the first ends.
    np.testing.assert_allclose(np.asarray(by_seconds.lines[0].get_xdata())[[0, -1]], [1.5, 2.0])
    assert [line.get_linestyle() for line in by_episodes.lines[:2]] == ["-", "--"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *("async", "lag-1-vtrace", "target: -60")
    ]
    assert any(list(line.get_ydata()) == [-60.0, -60.0] for line in by_seconds.lines)


def test_a_mode_in_which_no_episode_ended_is_left_out_of_the_figure():
    figure = modes_figure({"alf": [rows(math.nan)], "async": [rows(-5.0, -4.0)]}, -60.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["async", "target: -60"]
