"""Runs that begin with the agent of another run."""

import pytest

from tests.workflow_rl.runs.small_runs import PPO, config_of
from workflow_rl import api as interface
from workflow_rl.errors import UserError
from workflow_rl.runs import learner, loop
from workflow_rl.runs.checkpoint import load_checkpoint


def test_a_run_begins_with_the_agent_of_another(undisturbed, tmp_path):
    other = load_checkpoint(undisturbed("Puzzle", "episodes") / "checkpoint.safetensors")
    config = config_of(kind="unrolls", seed=8, total_steps=60)
    before = learner.make_agent(config)
    before.load_policy(other.agent)
    loop.train_policy(config, tmp_path / "run", init_from=other, quiet=True)
    after = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert after.agent["policy_version"] == after.training.updates == 1
    # One small step from where the other ended: Adam's first is the learning rate, at most, each.
    for name, tensor in before.network.state_dict().items():
        moved = (after.agent["network"][name] - tensor).abs().max()
        assert 0 < moved < 3 * PPO.learning_rate
    assert after.agent["obs_moments"]["count"] == other.agent["obs_moments"]["count"] + 60
    with pytest.raises(UserError, match="does not fit"):
        loop.train_policy(config_of("Pendulum"), tmp_path / "other", init_from=other, quiet=True)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"activation": "relu"}, "learned with activation tanh, and this run has relu"),
        ({"normalise_obs": False}, "obs_moments"),
    ],
)
def test_weights_for_another_function_are_refused(settings, said, undisturbed, tmp_path):
    path, asked = undisturbed("CartPole"), config_of("CartPole").settings.changed(**settings)
    with pytest.raises(UserError, match=said):
        interface.train(config_of("CartPole", settings=asked), tmp_path / "other", init_from=path)
    assert not (tmp_path / "other").exists()
