"""The columns of metrics.csv that a rollout gives, and what a run says while it goes on."""

import io
import logging
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tqdm.contrib.logging import logging_redirect_tqdm

from tests.agents.examples import example_trajectory
from tests.tiny_runs import config_of, on_counting_envs
from workflow_rl import progress_bar
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.rollout import Rollout
from workflow_rl.runs import loop
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.learner import Learner, make_agent
from workflow_rl.runs.metrics import group_of, row_of, summarise
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.training_state import Seconds, TrainingState
from workflow_rl.terminal import safe_output


def test_the_truncated_share_is_of_the_episodes_that_ended():
    """Of four that ended in an update, one was cut off; a fifth goes on in the next unroll."""
    ends = [(True, False), (True, True), (False, True), (True, False), (False, False)]
    trajectories = [
        example_trajectory([1.0])._replace(terminated=terminated, truncated=truncated)
        for terminated, truncated in ends
    ]
    config = TrainConfig("async", env="CartPole-v1", total_steps=100)
    seconds = Seconds(0.0, 0.0, 1.0)
    state = TrainingState(updates=1, worker_seconds=1.0)
    assert group_of("truncated_share") == "returns"
    for played, expected in ((trajectories, 0.25), (trajectories[-1:], math.nan)):
        row = row_of(config, state, Rollout(played, 1.0, 1.0, 1, 0), {}, seconds)
        assert row["truncated_share"] == pytest.approx(expected, nan_ok=True)


def test_updates_are_told_in_numbers():
    """Two alike: of two workers, two episodes that ended, one that was dropped and one left out."""
    config = TrainConfig("async", env="CartPole-v1", total_steps=100)
    played = [example_trajectory([1.0, 2.0, 3.0]), example_trajectory([4.0])]
    rollout = Rollout(
        played, 5.0, 6.0, 2, 1, dropped_steps=7, dropped_episodes=1, held_seconds=0.5, skipped=(9,)
    )
    state, seconds = TrainingState(), Seconds(waiting=3.0, learning=2.0, total=8.0)
    for _ in range(2):
        state.advance(rollout, seconds)
    row = row_of(config, state, rollout, {"entropy": 0.25}, seconds)
    told = {name: value for name, value in row.items() if not math.isnan(value)}
    assert told == {
        **{"update": 2, "episodes": 8, "env_steps": 22, "wall_seconds": 16.0, "held_seconds": 0.5},
        **{"collect_seconds": 5.0, "update_seconds": 2.0, "learner_idle_seconds": 3.0},
        **{"worker_idle_seconds": 10.0, "seconds_per_update": 8.0, "eps": 0.25},
        **{"episodes_per_second": 0.8, "env_steps_per_second": 2.2, "worker_utilisation": 0.6},
        **{"worker_utilisation_run": 0.375, "dropped_steps": 7, "queue_length": 0},
        **{"return_mean": 5.0, "return_std": 1.0, "episode_length_mean": 2.0, "entropy": 0.25},
        **{"truncated_share": 1.0, "workers_restarted": 1, "skipped_episodes": 1},
    }
    expected = {
        **{"updates": 2, "collect_seconds": 10.0, "update_seconds": 4.0, "held_seconds": 1.0},
        **{"learner_idle_seconds": 6.0, "dropped_steps": 14, "workers_restarted": 2},
        **{"seconds_per_update": 8.0, "episodes_per_second": 0.8, "episodes_per_second_run": 0.5},
        **{"worker_utilisation": 0.6, "worker_utilisation_run": 0.375, "recent_episodes": 4},
    }
    assert summarise(config, state).items() >= expected.items()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(path: Path, stderr: io.StringIO, monkeypatch: Any, **changes: Any) -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    with on_counting_envs():
        loop.train_policy(config_of(**changes), path)
    return stderr.getvalue()


@pytest.mark.parametrize(
    ("columns", "pattern"),
    [
        (300, r"mean return -?[\d.]+ .*of the last \d+; \d+% utilisation"),
        (80, r"100%[|][#█]{16}[|].*mean return -?[\d.]"),
    ],
)
def test_a_terminal_is_shown_a_bar_and_what_its_return_is_of(
    columns, pattern, tmp_path, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    last = shown(tmp_path / "run", Terminal(), monkeypatch).strip().split("\r")[-1]
    assert re.search(pattern, last)
    assert last.count("ep/s") == 1


def test_what_is_logged_does_not_stand_behind_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    log = logging.getLogger("beside a bar")
    with safe_output():
        log.addHandler(logging.StreamHandler())
        with progress_bar.Progress(quiet=False, total=3, unit="ep"), logging_redirect_tqdm([log]):
            log.warning("a worker failed")
    (before,) = re.findall("([^\n]*)a worker failed\n", terminal.getvalue())
    assert before.endswith("\r")


def test_a_log_file_is_shown_a_line_every_tenth(tmp_path, monkeypatch):
    lines = shown(tmp_path / "run", io.StringIO(), monkeypatch).splitlines()
    shares = [int(line.strip().partition("%")[0]) for line in lines]
    assert shares[-1] == 100
    assert shares == sorted(set(shares))
    assert len(shares) <= 10
    assert all("episodes): mean return" in line for line in lines)


def test_work_without_a_text_is_shown_lines_only_if_it_takes_long(monkeypatch, capsys):
    shown = ["playing:  33% (1 of 3 episodes)", "playing: 100% (3 of 3 episodes)"]
    for seconds, lines in ((60.0, []), (0.0, shown)):
        monkeypatch.setattr(progress_bar, "SECONDS", seconds)
        with progress_bar.Progress(quiet=False, total=3, unit="ep", desc="playing") as progress:
            progress.update()
            progress.update(2)
        assert capsys.readouterr().err.splitlines() == lines


def test_runs_that_end_at_an_update_show_how_many_are_done_and_quiet_ones_nothing(tmp_path, capsys):
    with on_counting_envs():
        loop.train_policy(config_of(), tmp_path / "run", last_update=1)
        assert capsys.readouterr().err.startswith("100% (1 of 1 updates): mean return")
        loop.train_policy(config_of(), tmp_path / "quiet", quiet=True)
    assert capsys.readouterr().err == ""


def state_of(returns, variants, **counts):
    state = TrainingState(**counts)
    state.recent_returns.extend(returns)
    state.recent_variants.extend(variants)
    return state


def test_returns_of_the_last_episodes_and_of_each_kind_of_them():
    assert TrainingState().returns_in_words(RED_AGENTS) == "no episode has ended"
    one, two, _ = RED_AGENTS
    returns = [-900.0, -1.0, -2.0, -6.0, *[-3.0] * 7]
    said = state_of(returns, [two, two, one, two, *[one] * 7]).returns_in_words(RED_AGENTS)
    assert said == f"mean return -3.0 ({one} -2.9, {two} -3.5) of the last 10"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0.0012, "0.00120"), (0.0, "0.0"), (0.93456, "0.935"), (-543.27, "-543.3")),
        *((12_345_678.0, "12,345,678"), (-123_456.7, "-123,457"), (99_999.94, "99999.9")),
    ],
)
def test_returns_have_digits_that_fit_them(value, shown):
    state = state_of([value] * 2, [""] * 2)
    assert state.returns_in_words(()) == f"mean return {shown} of the last 2"


def test_each_kind_counts_as_often_as_it_is_drawn():
    """Not as often as it happened to be."""
    one, two, three = RED_AGENTS
    counts = {"episodes": 120, "env_steps": 3600, "episode_length": 30.0}
    kinds = [one, one, two, two, *[three] * 8]
    state = state_of([-3.0, -3.0, -6.0, -6.0, *[0.0] * 8], kinds, **counts)
    assert state.returns_in_words(RED_AGENTS).startswith("mean return -3.0 (")
    assert summarise(config_of(), state)["return_mean_recent"] == -3


@pytest.mark.parametrize("learned", [True, False])
def test_the_summary_is_of_the_agent_that_the_run_ended_with(learned):
    """290 episodes of 20 steps, then 10 of 500. A resumed run says the same."""
    config = config_of(env="CartPole-v1", env_args={}, total_episodes=300, episodes_per_update=10)
    counts = {"updates": 30, "episodes": 300, "env_steps": 10_800, "episode_length": 500.0}
    lengths = [20.0] * 290 + [500.0] * 10
    state = state_of(lengths if learned else [-one for one in lengths], [""] * 300, **counts)
    state.wall_seconds = state.collect_seconds = state.worker_seconds = 1.0
    state.worker_seconds_collecting = 1.0
    summary = summarise(config, state)
    assert abs(summary["return_mean_recent"]) == 500
    assert summary["recent_episodes"] == 10
    assert state.returns_in_words(()).endswith("500.0 of the last 10")


def test_evaluations_too_count_each_kind_as_often_as_it_is_drawn(tmp_path):
    returns = dict(zip(RED_AGENTS, (-30.0, -60.0, 0.0), strict=True))

    def play(policy, specs):
        kinds = [spec.variant for spec in specs]
        assert len({kinds.count(one) for one in RED_AGENTS}) > 1
        played = [returns[one] for one in kinds]
        rollout = {"returns": played, "variants": kinds, "skipped": [], "trajectories": []}
        return SimpleNamespace(**rollout, episode_costs=[])

    learner = Learner(config_of(eval_episodes=20), tmp_path / "run")
    learner.agent = make_agent(learner.config)
    learner.schedule = SimpleNamespace(evaluate=play)
    assert learner.evaluate() == pytest.approx(-30)


def test_the_best_agent_is_chosen_by_means_over_kinds(tmp_path):
    config = config_of(total_episodes=100, episodes_per_update=100)
    with on_counting_envs():
        loop.train_policy(config, tmp_path / "run", quiet=True)
    (row,) = read_metrics(tmp_path / "run")
    means = [row[f"return_mean_{red_agent}"] for red_agent in RED_AGENTS]
    best = load_checkpoint(tmp_path / "run" / "best.safetensors").training.best_score
    assert best == pytest.approx(sum(means) / 3)
    assert abs(best - row["return_mean"]) > 1e-3
