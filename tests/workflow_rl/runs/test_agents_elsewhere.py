"""Agents in the hands of others: decisions with probabilities and values, and `predict`."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.cli import output_of
from tests.workflow_rl.runs.small_runs import ENVS
from workflow_rl import api
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.folder import read_config

evaluation = pytest.importorskip("stable_baselines3.common.evaluation")


class Numbered(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The seeds of its episodes are 0, 1, 2, ..."""

    n_begun = 0

    def reset(self, **_: Any) -> Any:
        self.n_begun += 1
        return self.env.reset(seed=self.n_begun - 1)


def trained_env(path: Path) -> Any:
    return read_config(path).environment.make_env()


@pytest.mark.parametrize("env", ENVS)
def test_predict_of_several_is_act_of_each(env, undisturbed):
    path = undisturbed(env, "episodes")
    agent, made = api.load_agent(path), trained_env(path)
    seen = [made.reset(seed=seed)[0] for seed in range(3)]
    space = gymnasium.vector.utils.batch_space(made.observation_space, 3)
    empty = gymnasium.vector.utils.create_empty_array(made.observation_space, 3)
    batch = gymnasium.vector.utils.concatenate(made.observation_space, seen, empty)
    assert space.contains(batch)
    acted = []
    for obs in seen:
        agent.reset()
        acted.append(agent.act(obs))
    actions, state = agent.predict(batch, episode_start=[True] * 3, state=None)
    np.testing.assert_array_equal(actions, acted)
    assert state is None
    agent.reset()
    np.testing.assert_array_equal(agent.predict(seen[0])[0], acted[0])
    sampled, _ = agent.predict(batch, deterministic=False)
    assert all(made.action_space.contains(action) for action in sampled)
    assert len(sampled) == 3


@pytest.mark.parametrize("env", ENVS)
def test_a_decision_is_the_action_with_its_reasons(env, undisturbed):
    path = undisturbed(env, "episodes")
    agent, same = api.load_agent(path), api.load_agent(path)
    made = trained_env(path)
    obs, _ = made.reset(seed=0)
    for _ in range(3):
        decision = agent.decide(obs)
        np.testing.assert_array_equal(decision.action, same.act(obs))
        of_choices = decision.probabilities
        if isinstance(made.action_space, gymnasium.spaces.Discrete):
            assert isinstance(of_choices, np.ndarray)
            assert of_choices.sum() == pytest.approx(1)
            assert of_choices.argmax() == decision.action - made.action_space.start
        if isinstance(made.action_space, gymnasium.spaces.MultiDiscrete):
            assert isinstance(of_choices, list)
            likeliest = [int(shares.argmax()) for shares in of_choices]
            assert likeliest == (decision.action - made.action_space.start).ravel().tolist()
        if isinstance(made.action_space, gymnasium.spaces.Box):
            assert of_choices is None
        assert decision.value is not None
        obs, *_ = made.step(decision.action)


def test_stable_baselines3_evaluates_agents(undisturbed):
    path = undisturbed("CartPole", "episodes")
    agent, made = api.load_agent(path), Numbered(trained_env(path))
    returns, lengths = evaluation.evaluate_policy(
        agent, made, n_eval_episodes=3, return_episode_rewards=True, warn=False
    )
    made = Numbered(trained_env(path))
    for expected, length in zip(returns, lengths, strict=True):
        obs, total, n_steps, ended = made.reset()[0], 0.0, 0, False
        while not ended:
            obs, reward, terminated, truncated, _ = made.step(agent.act(obs))
            total, n_steps, ended = total + reward, n_steps + 1, terminated or truncated
        assert (total, n_steps) == (pytest.approx(expected, rel=1e-5), length)


def test_a_run_on_cage2_is_evaluated_by_stable_baselines3_too():
    """The champion remembers each of four envs' episodes."""
    from stable_baselines3.common.env_util import make_vec_env

    def played(agent: Any) -> list[float]:
        arguments = {"simulator": "compiled", "max_steps": 30}
        env = make_vec_env("workflow_rl:workflow_rl/CAGE2-v0", 4, 0, env_kwargs=arguments)
        returns, _ = evaluation.evaluate_policy(agent, env, 8, return_episode_rewards=True)
        return sorted(np.round(returns, 4).tolist())

    agent = api.load_agent("champion")
    first = played(agent)
    agent.reset()
    assert first == played(agent) == played(api.load_agent("champion"))
    assert -15 < np.mean(first) < 0


def test_the_champion_says_how_likely_each_of_the_145_actions_was():
    env = gymnasium.make("workflow_rl:workflow_rl/CAGE2-v0", simulator="compiled")
    agent, same = api.load_agent("champion"), api.load_agent("champion")
    obs, _ = env.reset(seed=0)
    told = []
    for _ in range(12):
        decision = agent.decide(obs)
        assert decision.action == same.act(obs)
        assert decision.value is None
        told.append(decision.probabilities)
        if told[-1] is not None:
            assert told[-1].shape == (145,)
            assert told[-1].argmax() == decision.action
        obs, *_ = env.step(decision.action)
    assert [one is None for one in told] == [True] * 3 + [False] * 9  # The opening is fixed.


@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        ("champion", {"red_agent": "B_lineAgent", "max_steps": 30}),
        ("decoys", {"red_agent": ("B_lineAgent", "RedMeanderAgent"), "max_steps": 30}),
        ("rules", {"env": "workflow_rl/CAGE4-v0", "max_steps": 20}),
    ],
)
def test_python_scores_as_the_command_does(agent, settings, tmp_path):
    scored = api.evaluate(agent, 3, seed=5, **settings)
    words = ["evaluate", agent, "--episodes", "3", "--seed", "5", "--quiet"]
    for name, value in settings.items():
        for each in value if isinstance(value, tuple) else (value,):
            words += [f"--{name.replace('_', '-')}", str(each)]
    told = output_of(*words, "--json", str(tmp_path / "scores.json"))
    scores = json.loads((tmp_path / "scores.json").read_text())
    of_command = {"actions", "agent_sha256", "shortfall"}
    assert scored.scores.to_dict().keys() == scores.keys() - of_command
    expected = scores["total" if "total" in scores else "mean"]
    assert scored.mean == pytest.approx(expected)
    assert f"{scored.mean:.2f}" in repr(scored)
    tables = [
        [line for line in text.splitlines() if line and line[0] in "┌│├└"]
        for text in (str(scored), told)
    ]
    assert tables[0] == tables[1] != []


def test_mistakes_in_a_python_evaluation_are_named():
    with pytest.raises(ConfigError, match=r"red_agnt: .*there is .*red_agent"):
        api.evaluate("champion", red_agnt="B_lineAgent")
    with pytest.raises(ConfigError, match="'nowhere': choose one of workflow_rl/CAGE2"):
        api.evaluate("champion", env="nowhere")
    with pytest.raises(UserError, match="no checkpoint at decyos"):
        api.evaluate("decyos")
    with pytest.raises(ValueError, match="episodes is 0: give 1 or more"):
        api.evaluate("decoys", 0)
