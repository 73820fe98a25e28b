"""Runs that differ in their seed alone."""

from __future__ import annotations

import numpy as np
import pytest

from workflow_rl.reporting.learning_curve import learning_curve_figure
from workflow_rl.runs.return_curves import groups_of


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
