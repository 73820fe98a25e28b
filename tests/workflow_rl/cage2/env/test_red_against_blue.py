"""Envs in which Red's policy acts: the environment of `--env workflow_rl/CAGE2-red-v0`."""

import cloudpickle
import gymnasium
import numpy as np
import pytest

from tests.cli import output_of
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.cage2 import Cage2RedEnv
from workflow_rl.cage2.agent.scripted import scripted_blue
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.red_environment import Cage2Red
from workflow_rl.cage2.env.viewed_envs import record_envs
from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.cage2.red.user_reds import red_policy
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ENV_ID, RED_ENV_ID
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError

SPEC = EpisodeSpec(0, "", 5, 5)
OFFICE = (
    Scenario.scenario2()
    .add_host("Web0", "OP_Server", "Enterprise", confidentiality="High")
    .change_host("User1", leads_to=["Enterprise0", "Web0"])
)


@pytest.mark.parametrize(
    ("blue_agent", "is_scripted", "scenario"),
    [
        ("champion", False, Scenario.scenario2()),
        ("sleep", True, Scenario.scenario2()),
        ("sleep", True, OFFICE),
        ("sleep", True, Scenario.scenario1b()),
    ],
)
def test_they_play_what_as_many_single_envs_play(blue_agent, is_scripted, scenario):
    n, steps, draws = 3, 25, np.random.default_rng(0)
    args = {"blue_agent": blue_agent, "max_steps": steps, "scenario": scenario}
    environment, size = make_environment(RED_ENV_ID, args), scenario.red_obs_size
    # As a worker gets it.
    envs = cloudpickle.loads(cloudpickle.dumps(environment)).make_envs(n)
    blues = [None if is_scripted else load_agent(blue_agent) for _ in range(n)]
    singles = [Cage2RedEnv(blue, steps, scenario=scenario) for blue in blues]
    rows = envs.reset(range(n), [EpisodeSpec(i, "", 70 + i, 0) for i in range(n)])
    shown = [single.reset(seed=70 + i) for i, single in enumerate(singles)]
    for step in range(steps):
        for row, (obs, info) in zip(rows, shown, strict=True):
            assert np.array_equal(row[:size], obs)
            assert np.array_equal(row[size:], info["action_mask"])
        actions = [int(draws.choice(np.flatnonzero(row[size:]))) for row in rows]
        answers = envs.step(range(n), np.array(actions))
        stepped = [single.step(action) for single, action in zip(singles, actions, strict=True)]
        assert answers.reward.tolist() == [reward for _, reward, *_ in stepped]
        assert answers.truncated.tolist() == [step == steps - 1] * n
        assert not answers.terminated.any()
        rows, shown = answers.obs, [(obs, info) for obs, *_, info in stepped]


@pytest.mark.parametrize("name", Cage2Guest.released)
def test_a_released_name_means_the_released_file(name, tmp_path, monkeypatch):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    environment = Cage2Red(name, named_by_file=True)
    assert environment.foreign == []
    if name == "champion1b":
        with pytest.raises(ConfigError, match=r"where .*champion1b.* was trained"):
            assert environment.opponents
    else:
        assert environment.opponents


def test_an_attacker_is_trained_evaluated_and_loaded(tmp_path):
    counts = {"total_episodes": 8, "episodes_per_update": 4, "n_envs": 4, "n_workers": 1}
    args = {"blue_agent": "react-restore"}
    config = TrainConfig("async", env=RED_ENV_ID, env_args=args, **counts)
    train(config, tmp_path / "red")
    assert evaluate(tmp_path / "red", episodes=4, n_workers=1).mean >= 0
    agent = load_agent(tmp_path / "red")
    env = gymnasium.make(RED_ENV_ID)
    obs, info = env.reset(seed=1)
    for _ in range(20):
        action = agent.act(obs)  # type: ignore[call-arg]
        assert info["action_mask"][action]
        obs, *_, info = env.step(action)


def test_an_attacker_learns_in_a_scenario_and_plays_there_alone(tmp_path):
    """What Red gets is what Blue loses to it."""
    args = {"blue_agent": "decoys", "max_steps": 10, "scenario": OFFICE}
    counts = {"total_episodes": 4, "episodes_per_update": 4, "n_envs": 4, "n_workers": 1}
    config = TrainConfig("sync", env=RED_ENV_ID, env_args=args, **counts)
    train(config, red := tmp_path / "red")
    policy = red_policy(str(red), greedy=False, scenario=OFFICE)
    gained = play_episode(make_environment(RED_ENV_ID, args).make_envs(1), policy, SPEC)
    envs = record_envs(Cage2(str(red), 10, scenario=OFFICE.text), 1)
    lost = play_episode(envs, scripted_blue("decoys", OFFICE), SPEC._replace(variant=str(red)))
    assert gained.reward.tolist() == (0.0 - lost.reward).tolist()
    with pytest.raises(ConfigError, match="which has other hosts than scenario2"):
        make_environment(ENV_ID, {"red_agent": str(red)}).check()
    config = config.changed(env_args={**args, "scenario": "scenario1b"})
    train(config, of_cage1 := tmp_path / "of-cage-1")
    with pytest.raises(ConfigError, match="which has other rules than scenario2"):
        make_environment(ENV_ID, {"red_agent": str(of_cage1)}).check()


def test_an_agent_that_is_not_there_is_named():
    environment = make_environment(RED_ENV_ID, {"blue_agent": "nobody"})
    with pytest.raises(ConfigError, match="nor a released agent of this name"):
        environment.check()
    asked = ["--env", RED_ENV_ID, "--blue-agent", "nobody", "--total-episodes", 1]
    said = output_of("train-async", *asked, code=2)
    assert "--blue-agent" in said
    assert "nor a released agent of this name" in said
