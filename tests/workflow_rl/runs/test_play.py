"""An agent remembers whether its actions are to be sampled, wherever it goes."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium import spaces

from workflow_rl import api
from workflow_rl.commands.main import main
from workflow_rl.runs.config import TrainConfig


def told(*words: object) -> str:
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = TrainConfig(
        *("async", 4), env="CartPole-v1", total_steps=400, steps_per_update=200, play="sampled"
    )
    return api.train(config, tmp_path_factory.mktemp("play") / "run")


def played(agent: Path, **how: Any) -> list[float]:
    scores = api.evaluate(agent, 6, n_workers=1, **how)
    assert isinstance(scores, api.Evaluation)
    return scores.returns


def test_the_run_its_policy_file_and_its_folder_for_the_hub_are_sampled(
    sampled: Path, tmp_path: Path
) -> None:
    told("export", sampled, "--format", "npz", "--output", tmp_path / "agent.npz")
    told("export", sampled, "--format", "hub", "--output", tmp_path / "hub")
    expected = played(sampled, greedy=False)
    assert expected != played(sampled, greedy=True)
    for agent in (sampled, sampled / "checkpoint.pt", tmp_path / "agent.npz", tmp_path / "hub"):
        assert played(agent) == expected
        assert played(agent, greedy=True) == played(sampled, greedy=True)
        assert not api.load_agent(agent).greedy


def test_the_command_says_how_the_agent_played(sampled: Path) -> None:
    words = ["evaluate", sampled, "--episodes", 2, "--quiet"]
    assert "(sampled actions)" in told(*words)
    assert "(greedy actions)" in told(*words, "--greedy")
    assert (sampled / "evaluation.json").exists()


class Sign(gymnasium.Env[Any, Any]):
    """What was done before must not be done again, and is not shown: chance is the best policy."""

    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps, self.before = 0, -1
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        reward, self.before = float(action != self.before), action
        self.steps += 1
        return np.zeros(1, np.float32), reward, False, self.steps == 20, {}


class NoisySign(Sign):
    """A coin decides more of an episode's return than the actions do."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.noise = float(np.random.default_rng(seed).choice([-10, 10]))
        return super().reset()

    def step(self, action: int) -> Any:
        obs, reward, *ends, info = super().step(action)
        return obs, reward + self.noise * ends[1], *ends, info


def test_an_agent_that_plays_much_worse_greedily_is_told(tmp_path: Path) -> None:
    words = ["train-sync", "--total-steps", 400, "--quiet", "--final-evaluation", 2, "--env"]
    line = "greedy 1.00, sampled 1"
    output = told(*words, f"{__name__}:Sign", "--run-dir", tmp_path / "sign")
    assert output.count(line) == 1
    assert "--play sampled" in output
    assert told("evaluate", tmp_path / "sign", "--episodes", 2).count(line) == 1
    for other in ("--stochastic", "--which=latest"):
        more = told("evaluate", tmp_path / "sign", "--episodes", 2, other)
        assert (line in more) == (other != "--stochastic")
    assert "sampled" not in told(*words, "CartPole-v1", "--run-dir", tmp_path / "pole")
    noisy = tmp_path / "noisy"
    told(*words, f"{__name__}:NoisySign", "--run-dir", noisy)
    assert "sampled" in told("evaluate", noisy, "--episodes", 100)


def test_a_finished_run_may_be_told_how_to_play(tmp_path: Path) -> None:
    config = TrainConfig("async", 4, env="CartPole-v1", total_steps=400, steps_per_update=200)
    run = api.train(config, tmp_path / "run")
    words = ["train-async", "--resume", run, "--play", "sampled", "--quiet"]
    told(*words)
    for agent in (run / "best.pt", run / "checkpoint.pt"):
        assert not api.load_agent(agent).greedy
    again = CliRunner().invoke(main, [*map(str, words)])
    assert again.exit_code == 0
    assert "is finished" in again.output


def test_others_are_greedy(tmp_path: Path) -> None:
    config = TrainConfig("async", 4, env="CartPole-v1", total_steps=200, steps_per_update=200)
    run = api.train(config, tmp_path / "run")
    assert api.load_agent(run).greedy
    assert "(sampled actions)" in told("evaluate", run, "--episodes", 2, "--stochastic")


def test_a_submission_samples_other_actions_in_each_episode(tmp_path: Path) -> None:
    asked = "train-async --simulator compiled --total-episodes 4 --n-envs 4 --n-workers 1 --quiet"
    told(*shlex.split(asked), "--max-steps", 5, "--play", "sampled", "--run-dir", tmp_path / "run")
    folder = tmp_path / "folder"
    told("export", tmp_path / "run", "--format", "cage2", "--output", folder)
    before = sys.path.copy(), {*sys.modules}
    sys.path.insert(0, str(folder))
    try:
        import agent  # type: ignore[import-not-found]

        blue, chosen = agent.BlueAgent(), []
        for _ in range(2):
            chosen.append([blue.get_action([0] * 52) for _ in range(8)])
            blue.end_episode()
    finally:
        sys.path[:] = before[0]
        for name in {*sys.modules} - before[1]:
            if name == "agent" or name.startswith("acting_"):
                del sys.modules[name]
    assert chosen[0] != chosen[1]
    assert len({*chosen[0]}) > 1
