"""An agent remembers whether its actions are to be sampled, wherever it goes."""

import json
import shlex
import sys
import types
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.cli import output_of
from workflow_rl import api
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.agents.settings import Settings
from workflow_rl.agents.team import TeamLayout
from workflow_rl.evaluation.evaluate import ReturnScoring, scored
from workflow_rl.runs.config import TrainConfig


def played(agent: Path, **how: Any) -> list[float]:
    return api.evaluate(agent, 6, n_workers=1, **how).returns


def test_the_run_its_policy_file_and_its_folder_for_the_hub_are_sampled(tmp_path):
    config = TrainConfig(
        *("async", 4), env="CartPole-v1", total_steps=400, steps_per_update=200, play="sampled"
    )
    sampled = api.train(config, tmp_path / "run")
    output_of("export", sampled, "--format", "npz", "--output", tmp_path / "agent.npz")
    output_of("export", sampled, "--format", "hub", "--output", tmp_path / "hub")
    expected = played(sampled, greedy=False)
    assert expected != played(sampled, greedy=True)
    files = (sampled / "checkpoint.safetensors", tmp_path / "agent.npz", tmp_path / "hub")
    for agent in (sampled, *files):
        assert played(agent) == expected
        assert played(agent, greedy=True) == played(sampled, greedy=True)
        assert not api.load_agent(agent).greedy
    # The command says how the agent played.
    words = ["evaluate", sampled, "--episodes", 2, "--quiet"]
    assert "(sampled actions)" in output_of(*words)
    assert "(greedy actions)" in output_of(*words, "--greedy")
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


LINE = "greedy 1.00, sampled 1"
TRAIN = ("train-sync", "--total-steps", 400, "--quiet", "--env")


@pytest.fixture(scope="module")
def sign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose agent plays much worse by its likeliest actions, and was asked to."""
    run = tmp_path_factory.mktemp("sign") / "run"
    output_of(*TRAIN, f"{__name__}:Sign", "--run-dir", run, "--play", "greedy")
    return run


def warned(caplog: pytest.LogCaptureFixture) -> int:
    """How often it was told since the last call."""
    n_told = caplog.text.count(LINE)
    caplog.clear()
    return n_told


def test_an_agent_that_plays_much_worse_greedily_is_told(sign, tmp_path, caplog):
    output_of("export", sign, "--format", "npz", "--output", tmp_path / "before.npz")
    api.load_agent(sign)
    assert not warned(caplog), "nobody has measured it yet"
    for words in ((), ("--which=latest",), ("--stochastic",), ()):
        output_of("evaluate", sign, "--episodes", 2, *words)
        assert warned(caplog) == (words != ("--stochastic",))
    for name in ("npz", "onnx", "hub"):
        ending = {"onnx": ".onnx", "npz": ".npz"}.get(name, "")
        output_of("export", sign, "--format", name, "--output", tmp_path / f"of-{name}{ending}")
        assert warned(caplog) == 1, name
    output_of("record", sign, tmp_path / "x.npz", "--episodes", 1)
    assert warned(caplog)
    api.evaluate(sign, 2, n_workers=1)
    assert warned(caplog) == 1
    assert api.load_agent(sign).greedy
    assert warned(caplog) == 1
    api.load_agent(sign, greedy=True)
    assert not warned(caplog), "this was asked for"
    assert LINE in output_of("compare", sign)


def test_no_agent_that_plays_as_it_trained_is_told(tmp_path, caplog):
    output_of(*TRAIN, "CartPole-v1", "--run-dir", tmp_path / "pole", "--final-evaluation", 2)
    assert "the likeliest actions play" not in caplog.text
    output_of(*TRAIN, f"{__name__}:NoisySign", "--run-dir", tmp_path / "noisy", "--play", "greedy")
    output_of("evaluate", tmp_path / "noisy", "--episodes", 100)
    assert "the likeliest actions play" in caplog.text


@pytest.mark.parametrize("asked", [(), ("--play", "greedy")])
def test_what_a_final_evaluation_measured_decides_how_the_agent_plays(asked, tmp_path, caplog):
    run = tmp_path / "run"
    output = output_of(
        *TRAIN, f"{__name__}:Sign", "--run-dir", run, "--final-evaluation", 2, *asked
    )
    assert warned(caplog) == 1
    assert ("samples its actions from now on" in output) == (not asked)
    assert output.count("(sampled actions)" if not asked else "(greedy actions)") == 1
    for file in (run, run / "best.safetensors", run / "checkpoint.safetensors"):
        assert api.load_agent(file).greedy == bool(asked)
    actions = json.loads((run / "evaluation.json").read_text())["actions"]
    assert actions == ("greedy" if asked else "sampled")
    assert LINE not in output_of("compare", run) or asked


@pytest.mark.parametrize("measured", ["by its training", "later"])
def test_the_best_of_several_policies_is_no_exception(measured, tmp_path, caplog):
    run, final = tmp_path / "run", ("--final-evaluation", 2)
    words = (*TRAIN, f"{__name__}:Sign", "--run-dir", run, "--n-policies", 2)
    output_of(*words, *(final if measured == "by its training" else ()))
    assert warned(caplog) == 2 * (measured == "by its training")
    output_of("evaluate", run, "--episodes", 2)
    assert warned(caplog) == (measured == "later")
    assert api.load_agent(run).greedy == (measured == "later")
    assert warned(caplog) == (measured == "later")


class ScoringOfCells(ReturnScoring):
    """A challenge's: scores that are no `Evaluation`, of two cells."""

    def score(self, actor: Any, *_: Any, name: str, episodes: int, **__: Any) -> Any:
        asked.append((actor.greedy, episodes))
        easy = [-1000.0 if actor.greedy else -1.0] * episodes
        returns = {"easy": easy, "hard": [-2.0] * episodes}
        return types.SimpleNamespace(to_dict=lambda: returns)

    def returns(self, scores: Any) -> dict[str, list[float]]:
        return dict(scores)


asked: list[tuple[bool, int]] = []


@pytest.mark.parametrize("trained", [-1.5, -900.0, None])
def test_an_agent_that_a_challenge_scores_is_told_too(trained, tmp_path, caplog):
    layout = TeamLayout(("a", "b"), (1, 1), (2, 2))
    member = ActorCritic(1, Categorical(2), (), "tanh", seed=1).policy_parameters()
    team = TeamParameters(layout, {"a": (0,), "b": (1,)}, {"a": member, "b": member})
    asked.clear()
    given = ScoringOfCells(), team.player(), None, Settings(), trained
    _, short = scored(*given, name=str(tmp_path / "best.safetensors"), episodes=3)
    if trained != -1.5:
        assert (asked, short) == ([(True, 3)], None)
        return
    assert asked == [(True, 3), (False, 20)]
    assert short == (-501, -1.5)
    assert "greedy -501.00, sampled -1.50" in caplog.text
    _, of_sampled = scored(*given[:1], team.player(greedy=False), *given[2:], name="", episodes=3)
    assert of_sampled is None


def test_an_agent_is_greedy_unless_it_is_told_how_to_play(tmp_path):
    config = TrainConfig("async", 4, env="CartPole-v1", total_steps=400, steps_per_update=200)
    run = api.train(config, tmp_path / "run")
    assert api.load_agent(run).greedy
    assert "(sampled actions)" in output_of("evaluate", run, "--episodes", 2, "--stochastic")
    words = ["train-async", "--resume", run, "--play", "sampled", "--quiet"]
    output_of(*words)
    for agent in (run / "best.safetensors", run / "checkpoint.safetensors"):
        assert not api.load_agent(agent).greedy
    assert "is finished" in output_of(*words)


def test_a_submission_samples_other_actions_in_each_episode(tmp_path):
    asked = "train-async --simulator compiled --total-episodes 4 --n-envs 4 --n-workers 1 --quiet"
    output_of(
        *shlex.split(asked), "--max-steps", 5, "--play", "sampled", "--run-dir", tmp_path / "run"
    )
    folder = tmp_path / "folder"
    output_of("export", tmp_path / "run", "--format", "cage2", "--output", folder)
    before = sys.path.copy(), {*sys.modules}
    sys.path.insert(0, str(folder))
    try:
        import agent

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
