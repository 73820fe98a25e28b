"""What a training command prints at its end, to the number."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workflow_rl.commands.train_report import print_report
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import Outcome
from workflow_rl.runs.training_state import TrainingState

SECONDS = {
    **{"wall_seconds": 10.0, "collect_seconds": 4.0, "update_seconds": 5.0},
    **{"learner_idle_seconds": 4.0, "busy_seconds": 6.0, "worker_seconds": 20.0},
    "worker_seconds_collecting": 8.0,
}


def report(
    capsys: pytest.CaptureFixture[str],
    config: dict[str, Any],
    state: dict[str, Any],
    stopped: str | None = None,
) -> list[str]:
    """The lines about a run of two updates."""
    learner: Any = SimpleNamespace(
        config=TrainConfig("async", env="CartPole-v1", **({"total_steps": 80} | config)),
        state=TrainingState(**({"updates": 2, "episodes": 8, "env_steps": 80} | SECONDS | state)),
        copied=None,
        stopped=stopped,
    )
    print_report(Outcome(Path("run"), [learner], [{"weights": "ab" * 32}], 0, None, None), False)
    return capsys.readouterr().out.splitlines()


COLLECTING = ["4.0", "40%", "2.0", "20", "75.0%"]
WHOLE = ["whole run", "10.0", "100%", "0.8", "8", "30.0%"]


@pytest.mark.parametrize(
    ("config", "state", "rows"),
    [
        (
            {},
            {},
            [
                ["collecting (the learner waits)", *COLLECTING],
                ["learning (the workers wait)", "5.0", "50%", "", "", ""],
                ["saving, evaluating", "1.0", "10%", "", "", ""],
            ],
        ),
        (
            {"async_rl": True},
            {"held_seconds": 0.5, "learner_idle_seconds": 6.0},
            [
                ["collecting", *COLLECTING],
                ["learning meanwhile", "5.0", "50%", "", "", ""],
                ["the learner waits", "6.0", "60%", "", "", ""],
                ["collecting waits", "0.5", "5%", "", "", ""],
                ["saving, evaluating", "0.0", "0%", "", "", ""],
            ],
        ),
    ],
)
def test_where_the_time_went(config, state, rows, capsys):
    lines = report(capsys, config, state)
    cells = [[one.strip() for one in line.split("│")[1:-1]] for line in lines if "│" in line]
    headings = ["", "seconds", "share", "episodes/s", "env steps/s", "worker utilisation"]
    assert cells == [headings, *rows, WHOLE]


@pytest.mark.parametrize(
    ("config", "state", "stopped", "words"),
    [
        ({}, {}, None, " --total-steps 160"),
        ({"total_steps": 81}, {}, None, ""),
        ({"total_steps": None, "total_episodes": 8}, {}, None, " --total-episodes 16"),
        ({"total_steps": 99, "eval_every": 1, "patience": 3}, {}, "enough", " --patience 6"),
        *(
            ({"total_steps": 99, "stop_at_return": reached}, {"best_score": best}, "enough", words)
            for reached, best, words in [
                *((5.0, 7.0, "=7.7"), (5.0, 5.0, "=5.5"), (0.05, 0.05, "=0.15")),
                *((-20.0, -20.0, "=-18"), (5.0, 4.9, None)),
            ]
        ),
    ],
)
def test_how_a_run_is_trained_on(config, state, stopped, words, capsys):
    words = "" if words is None else words.replace("=", " --stop-at-return=")
    (line,) = [one for one in report(capsys, config, state, stopped) if "train on:" in one]
    assert line.endswith(f"train-async --resume run{words}")


@pytest.mark.parametrize(
    ("config", "state", "told"),
    [
        ({}, {}, ""),
        (
            {"eval_every": 2},
            {"best_score": 7.0, "best_update": 2},
            ", of update 2, whose evaluation has a mean return of 7.00",
        ),
        ({"eval_every": 2}, {}, ""),
        (
            {"eval_every": 3},
            {},
            ", the last: the run ended before the first evaluation, after 3 updates (--eval-every)",
        ),
    ],
)
def test_which_agent_is_the_best_and_why(config, state, told, capsys):
    lines = report(capsys, config, state)
    assert f"best agent:      run/best.safetensors{told}" in lines
    assert (
        f"last agent:      run/checkpoint.safetensors, with weights of SHA-256 {'ab' * 8}" in lines
    )


def test_steps_beyond_the_end_and_workers_that_failed_are_told(capsys):
    assert "8 episodes, updates: 2; no episode has ended" in report(capsys, {}, {})
    lines = report(capsys, {}, {"env_steps": 1081, "workers_restarted": 3})
    whole = "8 episodes of 1,081 steps (the last update is whole), updates: 2; no episode has ended"
    assert whole in lines
    assert "workers restarted: 3" in lines
