"""Runs on zero-sum games, whose team's return is 0 whatever the agents do."""

import json
from typing import Any

import numpy as np
import pytest

from examples.small_games import Matrix
from tests.cli import output_of
from workflow_rl import evaluate
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.read_checkpoint import load_checkpoint

KUHN = "examples.small_games:Kuhn"


class Same(Matrix):
    """Both players get 1 if the first chooses action 1."""

    def step(self, actions: Any) -> Any:
        seen, rewards, *rest = super().step(actions)
        return (seen, dict.fromkeys(rewards, float(actions["first"] == 1)), *rest)


SMALL = ("--n-envs", "4", "--n-workers", "1", "--quiet")


@pytest.mark.parametrize("more", [(), ("--eval-every", 1, "--eval-episodes", 4)])
def test_the_last_agent_is_the_best_and_each_agents_return_is_told(tmp_path, more):
    run = tmp_path / "run"
    counts = ("--total-episodes", 240, "--episodes-per-update", 40, *more)
    output = output_of("train-sync", "--env", KUHN, *counts, *SMALL, "--run-dir", run)
    assert load_checkpoint(run / "best.safetensors").training.updates == 6
    assert json.loads((run / "summary.json").read_text())["best_score"] is None
    assert "the agents' returns sum to 0" in output
    # A tenth of the run's episodes are 24, and the last update has 40.
    first = read_metrics(run)[-1]["return_mean_first"]
    shown = output.split("of each agent:   first ")[1].split(",")[0]
    assert float(shown) == pytest.approx(first, abs=0.06)
    assert first != 0
    # A longer run has another last agent.
    output_of("train-sync", "--resume", run, "--total-episodes", 280, "--quiet")
    assert load_checkpoint(run / "best.safetensors").training.updates == 7
    output = output_of("evaluate", run, "--episodes", 20, "--n-workers", "1", "--quiet")
    scores = json.loads((run / "evaluation.json").read_text())
    assert scores["mean"] == 0
    both = scores["returns_of"]
    assert both["first"] == [-return_ for return_ in both["second"]]
    assert any(both["first"])
    assert f"return of first  │ {np.mean(both['first']):5.2f}" in output
    assert evaluate(run, episodes=20).returns_of == both


def test_other_teams_are_scored_as_before(tmp_path):
    counts = ("--total-episodes", 240, "--episodes-per-update", 40)
    env = ("--env", "tests.workflow_rl.runs.test_zero_sum:Same")
    output_of("train-sync", *env, *counts, *SMALL, "--run-dir", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["best_score"] > 0
