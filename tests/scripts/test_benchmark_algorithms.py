from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scripts import benchmark_algorithms
from scripts.benchmark_algorithms import TASKS, Measured, Task, main, reached
from workflow_rl.reporting.compare_modes import Run

TINY = Task(
    "--env tests.any_envs:tests/Target-v0 --env-arg length=5 --n-envs 2 --n-workers 1 "
    "--episodes-per-update 4 --total-episodes 12 --hidden-sizes 8",
    (-1e9, 1e9),
    2,
    {"ppo": "", "sac": ""},
)


def test_targets_are_reached_by_the_mean_of_the_last_episodes() -> None:
    rows = [
        {"episodes": 10 * k, "env_steps": 100 * k, "wall_seconds": k, "return_mean": -100 / k}
        for k in (1, 2, 3, 4)
    ]
    run = Run(rows, {})
    assert reached(run, -45, 20) == (30, 300, 3)  # Of -50 and -33.
    assert reached(run, -30, 20) == (40, 400, 4)
    assert reached(run, -10, 20) == (math.inf,) * 3


def test_seconds_are_a_line_in_what_a_step_costs() -> None:
    # 24,000 steps in 12 workers: 2,000 one after another, so 2 s for each millisecond.
    assert Measured(20, 24_000, 45, 12).line() == (5, 2)


@pytest.mark.parametrize("task", TASKS)
def test_settings_are_right(task: str) -> None:
    for name in TASKS[task].algorithms:
        config = benchmark_algorithms.config_of(TASKS[task], name, 20.0)
        assert config.algorithm == name.split()[0]
        assert config.slow_worker_ms == 20


def test_a_tiny_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "pendulum", TINY)
    arguments = ["pendulum", "--seeds", "2", "--slow-ms", "0", "--slow-ms", "1", "--updates", "2"]
    paths = {"--json": tmp_path / "numbers.json", "--plot": tmp_path / "pays.png"}
    more = [str(word) for pair in paths.items() for word in pair]
    result = CliRunner().invoke(main, [*arguments, *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows: list[Any] = json.loads(paths["--json"].read_text())["reached"]
    assert [(row["algorithm"], row["slow_ms"], row["target"]) for row in rows] == [
        (name, cost, target) for cost in (0, 1) for name in ("ppo", "sac") for target in (-1e9, 1e9)
    ]
    assert [one[0] for one in rows[0]["seeds"]] == [4, 4]
    assert paths["--plot"].read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_measured() -> None:
    assert CliRunner().invoke(main, ["pendulum", "--algorithms", "dqn"]).exit_code == 2
