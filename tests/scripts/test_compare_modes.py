"""The comparison of modes: their settings, what its tables say of given metrics, its files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from scripts import compare_modes as script
from scripts.compare_modes import (
    DEFAULT_MODES,
    ON_POLICY,
    ModeRun,
    alf_configs,
    alf_table,
    main,
    make_alf_rows,
    mode_config,
    mode_rows,
    modes_figure,
    modes_table,
    reached,
    seconds_per_update_and_eps,
    train_all,
)
from workflow_rl.errors import ConfigError
from workflow_rl.runs.presets import PRESETS


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments), "--quiet"])


def metrics(*updates: tuple[int, float], seconds: float = 0.5) -> list[dict[str, float]]:
    """Updates of so many episodes and so high a mean return, each of as many seconds."""
    rows: list[dict[str, float]] = []
    episodes = 0
    for number, (count, return_mean) in enumerate(updates, start=1):
        episodes += count
        rows.append(
            {
                "episodes": episodes,
                "return_mean": return_mean,
                "wall_seconds": number * seconds,
                "seconds_per_update": seconds,
                "eps": count / seconds,
                "policy_lag_mean": 1.0 if number > 1 else 0.0,
                "policy_lag_max": 1 if number > 1 else 0,
                "stale_fraction": 0.25,
            }
        )
    return rows


def a_run(rows: list[dict[str, float]], seed: int = 0, **summary: float) -> ModeRun:
    return ModeRun(
        rows,
        {
            "seed": seed,
            "wall_seconds": rows[-1]["wall_seconds"],
            "learner_idle_seconds": 0.1,
            "episodes_per_second_run": rows[-1]["episodes"] / rows[-1]["wall_seconds"],
            "worker_utilisation_run": 0.5,
            "dropped_steps": 0,
            "return_mean_recent": rows[-1]["return_mean"],
            "n_workers": 2,
            **summary,
        },
    )


def test_a_run_in_which_no_episode_has_ended_has_the_worst_return():
    runs = {
        mode: [a_run(metrics((100, -20.0)), return_mean_recent=None)] for mode in ("async", "lag-1")
    }
    assert [row["return_mean_recent"] for row in mode_rows(runs, -60.0)] == [None, None]


def test_modes_are_the_trainers_settings():
    sync, async_ = mode_config("sync", n_envs=4), mode_config("async", n_envs=4)
    assert (sync.mode, sync.async_rl) == ("sync", False)
    assert (async_.mode, async_.async_rl) == ("async", False)
    lag_1 = mode_config("lag-1", n_envs=4)
    assert (lag_1.mode, lag_1.async_rl, lag_1.num_batches_to_accumulate) == ("async", True, 1)
    assert (lag_1.batching, lag_1.settings.correction) == ("exact-lag", "none")
    lag_16 = mode_config("lag-16-vtrace", n_envs=4, episodes_per_update=12)
    assert (lag_16.num_batches_to_accumulate, lag_16.settings.correction) == (16, "vtrace")
    assert lag_16.episodes_per_update == 12


@pytest.mark.parametrize("name", ON_POLICY)
def test_every_preset_of_the_same_algorithm_is_a_mode(name):
    config = mode_config(name, n_envs=4, episodes_per_update=12)
    assert config.preset == name
    preset = PRESETS[name]
    fields = {**preset, **preset.get("settings", {})}
    fields.pop("settings", None)
    for field, value in fields.items():
        assert getattr(config if hasattr(config, field) else config.settings, field) == value


@pytest.mark.parametrize(
    "name", ["fast", "lag-0", "lag-", "lag-x", "lag-2-vtraces", "LAG-1", "", "mbpo-batch"]
)
def test_unknown_modes_are_refused(name):
    with pytest.raises(ConfigError, match="is not one of sync, async, lag-N") as error:
        mode_config(name)
    assert error.value.field_name == "modes"


def test_alfs_ways_learn_from_as_many_unrolls_of_equal_length():
    configs = alf_configs(6, 3, total_episodes=10)
    sync, async_ = configs["alf-6-sync"], configs["alf-6-async"]
    assert (sync.n_envs, sync.n_workers, sync.async_rl) == (6, 3, False)
    assert (async_.n_envs, async_.n_workers, async_.async_rl) == (18, 3, True)
    assert async_.envs_per_worker == 6
    assert sync.steps_per_update == async_.steps_per_update == 600
    assert sync.num_steps_per_env == async_.num_steps_per_env == 100
    assert sync.settings == async_.settings


def test_target_is_reached_by_the_running_mean_of_100_episodes():
    rows = metrics((60, -20.0), (60, -120.0), (40, -30.0), (60, -40.0), (24, -10.0))
    # After 60 episodes the mean is too young; then -120, (60 * -120 + 40 * -30) / 100 = -84, and
    # (40 * -30 + 60 * -40) / 100 = -36.
    assert reached(rows, -36.0) == (220, 2.0)
    assert reached(rows, -85.0) == (160, 1.5)
    assert reached(rows, -5.0) == (math.inf, math.inf)


def test_updates_in_which_no_episode_ended_are_passed_over():
    rows = metrics((100, -90.0), (0, math.nan), (100, -50.0))
    assert reached(rows, -60.0) == (200, 1.5)


def test_speed_leaves_the_first_update_out():
    rows = metrics((10, 0.0), (30, 0.0), (50, 0.0))
    rows[0]["seconds_per_update"] = 99.0
    rows[2]["seconds_per_update"] = 1.5
    rows[2]["eps"] = 10.0
    # 30 unrolls in 0.5 s and 15 in 1.5 s.
    assert seconds_per_update_and_eps(rows) == (1.0, 22.5)
    assert seconds_per_update_and_eps(rows[:1]) == (99.0, 20.0)


def test_row_of_hand_computed_runs():
    updates = ((100, -100.0), (100, -50.0)), ((100, -100.0), (100, -70.0))
    runs = {
        "async": [a_run(metrics((100, -50.0))), a_run(metrics((100, -100.0), (100, -40.0)))],
        "lag-1": [
            a_run(metrics(*updates[0], (100, -20.0)), 0, dropped_steps=7),
            a_run(metrics(*updates[1], (100, -30.0)), 1, worker_utilisation_run=0.75),
        ],
    }
    reference, row = mode_rows(runs, -60.0)
    assert row["mode"] == "lag-1"
    assert row["n_seeds"] == row["seeds_at_target"] == 2
    assert row["episodes_to_target_by_seed"] == [200, 300]
    assert row["episodes_to_target"] == 250
    assert row["seconds_to_target"] == 1.25
    assert row["policy_lag_mean"] == pytest.approx(2 / 3)
    assert row["policy_lag_max"] == 1
    assert row["stale_fraction"] == 0.25
    assert row["dropped_steps"] == 3.5
    assert row["worker_utilisation"] == 0.625
    assert row["learner_idle"] == pytest.approx(0.1 / 1.5)
    assert row["return_mean_recent"] == -25.0
    assert row["episodes_per_second"] == row["eps"] == 200.0
    # async took 100 and 200 episodes, 0.5 s and 1 s.
    assert row["episodes_to_target_x_async"] == pytest.approx(250 / 150)
    assert row["seconds_to_target_x_async"] == pytest.approx(1.25 / 0.75)
    assert reference["episodes_to_target_x_async"] == 1.0


def test_a_seed_that_does_not_reach_the_target_counts_as_infinitely_slow():
    good, bad = metrics((100, -50.0)), metrics((100, -90.0))
    runs = {
        "async": [a_run(good), a_run(bad), a_run(good)],
        "alf": [a_run(bad), a_run(good), a_run(bad)],
    }
    most, few = mode_rows(runs, -60.0)
    assert (most["seeds_at_target"], most["episodes_to_target"]) == (2, 100)
    assert most["episodes_to_target_by_seed"] == [100, None, 100]
    assert (few["seeds_at_target"], few["episodes_to_target"]) == (1, None)
    assert few["seconds_to_target"] is few["seconds_to_target_x_async"] is None
    json.dumps([most, few], allow_nan=False)


def test_without_async_there_is_no_ratio_to_it():
    (row,) = mode_rows({"sync": [a_run(metrics((100, -50.0)))]}, -60.0)
    assert row["episodes_to_target"] == 100
    assert row["episodes_to_target_x_async"] is None


def test_alf_rows_are_medians_and_their_ratios_within_a_seed():
    def at_eps(*eps: float) -> list[ModeRun]:
        return [a_run(metrics((4, 0.0), (4, 0.0), seconds=4 / number)) for number in eps]

    runs = {"alf-4-sync": at_eps(1.0, 2.0, 8.0), "alf-4-async": at_eps(4.0, 16.0, 8.0)}
    (row,) = make_alf_rows(runs, [4])
    assert row == {
        "envs_per_actor": 4,
        "n_actors": 2,
        "sync_seconds_per_update": 2.0,
        "sync_eps": 2.0,
        "async_seconds_per_update": 0.5,
        "async_eps": 8.0,
        "ratio": 4.0,
    }


def test_modes_take_turns_and_change_direction_every_seed(monkeypatch, tmp_path, caplog):
    order = []

    def train(config, path, quiet=False, draw=None):
        order.append((config.seed, config.mode, path.name))
        return {"seed": config.seed, "skipped_episodes": [3, 4] if len(order) == 4 else []}

    monkeypatch.setattr(script, "train_policy", train)
    monkeypatch.setattr(script, "read_metrics", lambda path: [])
    configs = {name: mode_config(name) for name in ("sync", "async")}
    runs = train_all(configs, 2, tmp_path)
    assert order == [
        (0, "sync", "sync-seed-0"),
        (0, "async", "async-seed-0"),
        (1, "async", "async-seed-1"),
        (1, "sync", "sync-seed-1"),
    ]
    assert [run.summary["seed"] for run in runs["sync"]] == [0, 1]
    (warning,) = caplog.messages
    assert warning.startswith("2 episodes of sync-seed-1 could not be played")


SMALL = ("--seeds", 1, "--total-episodes", 8, "--max-steps", 5, "--n-envs", 4, "--n-actors", 2)


def test_command_writes_tables_figure_and_run_folders(tmp_path):
    outputs = {name: tmp_path / name for name in ("modes.json", "modes.png", "runs")}
    result = command(
        *SMALL,
        *("--modes", "sync", "--modes", "lag-2-vtrace", "--modes", "continuous"),
        *("--episodes-per-update", 4, "--envs-per-actor", 3, "--target-return", -1000),
        *("--json", outputs["modes.json"], "--png", outputs["modes.png"]),
        *("--run-root", outputs["runs"]),
    )
    assert result.exit_code == 0, result.output
    content = json.loads(outputs["modes.json"].read_text())
    assert [row["mode"] for row in content["modes"]] == ["sync", "lag-2-vtrace", "continuous"]
    for row in content["modes"]:
        assert f"│ {row['mode']} " in result.output
        assert row["eps"] > 0
        assert row["seconds_per_update"] > 0
        assert 0 < row["worker_utilisation"] <= 1
        assert row["return_mean_recent"] <= 0
    assert content["modes"][0]["policy_lag_max"] == 0
    assert content["modes"][1]["policy_lag_max"] == 1  # There are but two updates.
    (alf,) = content["alf"]
    assert (alf["envs_per_actor"], alf["n_actors"]) == (3, 2)
    assert alf["ratio"] == pytest.approx(alf["async_eps"] / alf["sync_eps"])
    assert content["settings"]["total_episodes"] == 8
    assert content["environment"]["cores"] >= 1
    png = outputs["modes.png"].read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    assert {path.name for path in outputs["runs"].iterdir()} == {
        f"{name}-seed-0"
        for name in ("sync", "lag-2-vtrace", "continuous", "alf-3-sync", "alf-3-async")
    }
    again = command(*SMALL, "--run-root", outputs["runs"])
    assert again.exit_code == 2
    assert "--run-root" in again.output
    assert "not empty" in again.output


@pytest.fixture
def trained(monkeypatch) -> list[dict]:
    """The configs that would have been trained."""
    asked: list[dict] = []

    def note(configs, n_seeds, folder, quiet):
        asked.append(dict(configs))
        return {name: [a_run(metrics((100, -50.0)))] * n_seeds for name in configs}

    monkeypatch.setattr(script, "train_all", note)
    monkeypatch.setattr(script, "warn_if_results_vary", lambda config: None)
    return asked


def test_default_modes_have_every_preset_and_alfs_table_comes_alone(trained):
    assert command().exit_code == 0
    assert list(trained[0]) == list(DEFAULT_MODES)
    assert set(PRESETS) - set(DEFAULT_MODES) == {"mbpo-continuous", "mbpo-batch"}
    result = command("--envs-per-actor", 2, "--envs-per-actor", 3, "--envs-per-actor", 2)
    assert result.exit_code == 0, result.output
    assert list(trained[1]) == ["alf-2-sync", "alf-2-async", "alf-3-sync", "alf-3-async"]
    assert "ratio" in result.output
    assert "utilisation" not in result.output


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--modes", "fast"], "--modes"),
        (["--n-envs", 2, "--n-actors", 3], "--n-actors"),
        (["--seeds", 0], "--seeds"),
        (["--simulator", "stock"], "--simulator"),
        (["--target-return", "nan"], "--target-return"),
        (["--envs-per-actor", 2, "--png", "modes.png"], "--png"),
        (["--json", "nowhere/modes.json"], "--json"),
        (["--png", "nowhere/modes.png"], "--png"),
    ],
)
def test_mistakes_are_found_before_anything_is_trained(
    arguments, culprit, trained, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = command(*arguments)
    assert result.exit_code == 2
    assert culprit in result.output.strip().splitlines()[-1]
    assert trained == []
    assert list(Path().iterdir()) == []


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
