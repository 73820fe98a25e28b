"""Which agent is taken from a run or a checkpoint, and how it acts."""

import numpy as np
import pytest
import torch

from tests.workflow_rl.cage2.scoring.evaluations import save_agent
from workflow_rl.cage2.agent.records import records
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring.players import load_blue, load_trained
from workflow_rl.errors import UserError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.loop import train_policy
from workflow_rl.runs.saved_agent import load_agent


def test_the_policy_is_the_checkpoints_actor(tmp_path):
    agent = save_agent(tmp_path / "checkpoint.safetensors")
    policy, _ = load_trained(tmp_path / "checkpoint.safetensors")
    assert policy.greedy
    assert policy.policy_version == 7
    obs = np.random.default_rng(0).integers(0, 2, (20, 52)).astype(np.float32)
    with torch.no_grad():
        logits = agent.network(torch.from_numpy(obs))[0].numpy()
    np.testing.assert_allclose(policy.outputs(obs), logits, atol=1e-6)


def test_agents_are_loaded_by_any_path_and_act_on_records_or_one_observation(tmp_path):
    save_agent(tmp_path / "checkpoint.safetensors")
    obs = np.random.default_rng(0).integers(0, 2, (20, 52)).astype(np.uint8)
    policy, _ = load_trained(tmp_path)
    expected = policy.act(obs, [0] * 20)[0].tolist()
    for path in (tmp_path, str(tmp_path), str(tmp_path / "checkpoint.safetensors")):
        shown = records(Scenario.scenario2(), obs)
        assert load_blue(path).act(shown, [0] * 20)[0].tolist() == expected
        agent = load_agent(path)
        assert [agent.act(one.astype(np.float32)) for one in obs] == expected


def test_an_agent_for_another_environment_is_said_to_be_one(tmp_path):
    config = TrainConfig("async", env="CartPole-v1", total_episodes=2, episodes_per_update=2)
    train_policy(config, tmp_path / "run", quiet=True)
    with pytest.raises(UserError, match="was trained on CartPole-v1, not on CAGE-2"):
        load_trained(tmp_path / "run")
