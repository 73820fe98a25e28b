import functools

import numpy as np
import pytest

from tests.any_envs import PictureEnv
from tests.tiny_runs import run
from tests.workflow_rl.runs.small_runs import CNN, config_of
from workflow_rl import api
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.export import export_policy
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.read_checkpoint import load_checkpoint

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("shown", "actions"), [("last", "number"), ("first", "tuple"), ("beside", "bits")]
)
def test_it_learns_where_the_spot_is(shown, actions, tmp_path):
    settings = CNN.changed(
        **{"hidden_sizes": (32,), "activation": "relu", "shared_trunk": True, "epochs": 8},
        **{"learning_rate": 3e-3, "minibatch_size": 100},
    )
    config = config_of(
        *("tests.any_envs:PictureEnv", "episodes"),
        **{"settings": settings, "total_steps": 6000, "steps_per_update": 400},
        **{"n_envs": 20, "env_args": {"shown": shown, "actions": actions}},
    )
    run(tmp_path / "run", config)
    scored = api.evaluate(tmp_path / "run", 50, env=PictureEnv)
    assert np.mean(scored.returns) > 3  # Of 4; at random it is 1.


def test_the_agent_is_used(undisturbed):
    path = undisturbed("channels beside")
    agent, env = api.load_agent(path, env=PictureEnv), PictureEnv("beside")
    agent.reset()
    obs, _ = env.reset(seed=5)
    assert env.action_space.contains(agent.act(obs))
    other = functools.partial(PictureEnv, "last")
    with pytest.raises(UserError, match="images of 8 x 8 x 3 channels"):
        api.load_agent(path, env=lambda shown: other())


@pytest.mark.parametrize("shown", ["first", "beside"])
def test_exports_agree(shown, tmp_path):
    settings = CNN.changed(normalise_obs=True)
    config = config_of("channels last", env_args={"shown": shown}, settings=settings)
    run(tmp_path / "run", config)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    agent = make_agent(config)
    agent.load_state_dict(checkpoint.agent)
    policy = agent.policy_parameters()
    n_inputs = policy.described().n_inputs
    obs = np.random.default_rng(0).integers(0, 256, (3, n_inputs)).astype(np.float32)
    outputs = policy.actor().outputs(obs)
    environment = GymnasiumEnvironment("any")
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    export_policy(policy, environment, "onnx", tmp_path / "agent.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "agent.onnx"))
    np.testing.assert_allclose(outputs, session.run(None, {"obs": obs})[0], atol=1e-5)


LARGE = {"convolutions": [[4, 9, 1]]}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"env": "tests.any_envs:PuzzleEnv", "env_args": {}}, "cnn needs images"),
        ({"env": "tests.tiny_teams:Shifts", "env_args": {}}, "cnn does not learn teams"),
        ({"algorithm": "sac", "settings": {"network": "cnn"}}, "cnn is learned by ppo alone"),
        ({"settings": CNN.changed(network_args=LARGE)}, "size 9 do not fit into the 8 x 8"),
    ],
)
def test_other_spaces_are_refused(changes, problem):
    with pytest.raises(ConfigError, match=problem):
        make_agent(config_of("channels last", **changes))
