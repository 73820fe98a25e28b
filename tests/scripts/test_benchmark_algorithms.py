from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts import benchmark_algorithms
from scripts.benchmark_algorithms import TASKS, Task, main

TINY = Task(
    "--env tests.any_envs:tests/Target-v0 --env-arg length=5 --n-envs 2 --n-workers 1 "
    "--episodes-per-update 4 --total-episodes 12 --hidden-sizes 8",
    (-1e9, 1e9),
    2,
    {"ppo": "", "sac": ""},
)


@pytest.mark.parametrize("task", TASKS)
def test_settings_are_right(task: str) -> None:
    for name in TASKS[task].algorithms:
        config = benchmark_algorithms.config_of(TASKS[task], name, 20.0)
        assert (config.preset or config.algorithm).startswith(name.split()[0])
        assert config.slow_worker_ms == 20


def test_a_tiny_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "pendulum", TINY)
    arguments = ["pendulum", "--seeds", "2", "--slow-ms", "0", "--slow-ms", "1", "--updates", "2"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = [line.split("|")[1:] for line in result.output.splitlines() if "ms" in line]
    shown = [tuple(cell.strip() for cell in line[:4]) for line in lines]
    assert shown == [
        (name, cost, target, episodes)
        for cost in ("+0 ms", "+1 ms")
        for name in ("ppo", "sac")
        for target, episodes in (("-1e+09", "4 (4 to 4)"), ("1e+09", "- (- to -)"))
    ]


def test_kept_runs_are_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "pendulum", TINY)
    arguments = ["pendulum", "--seeds", "1", "--updates", "1", "--runs", str(tmp_path / "runs")]
    first = CliRunner().invoke(main, arguments, catch_exceptions=False)
    monkeypatch.setattr(benchmark_algorithms, "train_policy", pytest.fail)
    png = tmp_path / "seconds.png"
    again = CliRunner().invoke(main, [*arguments, "--png", str(png)], catch_exceptions=False)
    assert again.output.splitlines()[-5:] == first.output.splitlines()[-5:]
    assert png.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_measured() -> None:
    assert CliRunner().invoke(main, ["pendulum", "--algorithms", "dqn"]).exit_code == 2
