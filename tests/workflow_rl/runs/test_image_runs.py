"""Runs on images: they learn, give the same weights everywhere, and their agents are used."""

from __future__ import annotations

import functools
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.any_envs import PictureEnv
from tests.tiny_runs import run, same_weights
from workflow_rl import api
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.collection.failures import StopRequested
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.export import export_policy
from workflow_rl.runs.make_agent import make_agent

pytestmark = pytest.mark.system

UNROLLS = {"num_steps_per_env": 6, "steps_per_update": 60}


def config_of(mode: str = "async", shown: str = "last", settings: Any = (), **changes: Any) -> Any:
    small = {"network": "cnn", "hidden_sizes": (8,), "minibatch_size": 50, "epochs": 1}
    given: dict[str, Any] = {
        **{"n_envs": 5, "n_workers": 2, "total_steps": 240, "seed": 3, "device": "cpu"},
        **{
            "env": "tests.any_envs:PictureEnv",
            "env_args": {"shown": shown},
            "settings": {**small, **dict(settings)},
        },
        **{"steps_per_update": 60, **changes},
    }
    return TrainConfig(mode, **given)


@pytest.mark.parametrize("kind", [{}, UNROLLS, {**UNROLLS, "async_rl": True}])
@pytest.mark.parametrize("shown", ["last", "beside"])
def test_same_weights_whatever_the_workers_the_mode_and_a_stop(
    kind: dict[str, Any], shown: str, tmp_path: Path
) -> None:
    def stop(pool: Any, policy: Any, count: int) -> None:
        if count == 2:
            pool.stop_signal = signal.SIGINT

    for mode, n_workers in (("async", 5), ("sync", 1)):
        run(tmp_path / mode, config_of(mode, shown, n_workers=n_workers, **kind))
    stopped = config_of("async", shown, **kind)
    with pytest.raises(StopRequested):
        run(tmp_path / "stopped", stopped, stop)
    run(tmp_path / "stopped", stopped)
    assert same_weights(tmp_path / "async", tmp_path / "sync")
    assert same_weights(tmp_path / "async", tmp_path / "stopped")


@pytest.mark.parametrize(
    ("shown", "actions"), [("last", "number"), ("first", "tuple"), ("beside", "bits")]
)
def test_it_learns_where_the_spot_is(shown: str, actions: str, tmp_path: Path) -> None:
    settings = {
        **{"hidden_sizes": (32,), "activation": "relu", "shared_trunk": True, "epochs": 8},
        **{"learning_rate": 3e-3, "minibatch_size": 100},
    }
    config = config_of(
        **{"shown": shown, "settings": settings, "total_steps": 6000, "steps_per_update": 400},
        **{"n_envs": 20, "env_args": {"shown": shown, "actions": actions}},
    )
    run(tmp_path / "run", config)
    scored = api.evaluate(tmp_path / "run", 50, env=PictureEnv)
    assert np.mean(scored.returns) > 3  # Of 4; at random it is 1.


def test_the_agent_is_used(tmp_path: Path) -> None:
    run(tmp_path / "run", config_of(shown="beside", env_args={"shown": "beside"}))
    agent, env = api.load_agent(tmp_path / "run", env=PictureEnv), PictureEnv("beside")
    agent.reset()
    obs, _ = env.reset(seed=5)
    assert env.action_space.contains(agent.act(obs))
    other = functools.partial(PictureEnv, "last")
    with pytest.raises(UserError, match="images of 8 x 8 x 3 channels"):
        api.load_agent(tmp_path / "run", env=lambda shown: other())


@pytest.mark.parametrize("shown", ["first", "beside"])
def test_exports_agree(shown: str, tmp_path: Path) -> None:
    config = config_of(shown=shown, settings={"normalise_obs": True})
    run(tmp_path / "run", config)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    agent = make_agent(config)
    agent.load_state_dict(checkpoint.agent)
    policy = agent.policy_parameters()
    assert isinstance(policy, PolicyParameters)
    n_inputs = policy.described().n_inputs
    obs = np.random.default_rng(0).integers(0, 256, (3, n_inputs)).astype(np.float32)
    outputs = policy.actor().outputs(obs)  # type: ignore[attr-defined]
    environment = GymnasiumEnvironment("any")
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    export_policy(policy, environment, "onnx", tmp_path / "agent.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "agent.onnx"))
    np.testing.assert_allclose(outputs, session.run(None, {"obs": obs})[0], atol=1e-5)


def test_other_spaces_are_refused() -> None:
    with pytest.raises(ConfigError, match="cnn needs images"):
        make_agent(config_of(env="tests.any_envs:PuzzleEnv", env_args={}))
    with pytest.raises(ConfigError, match="cnn does not learn teams"):
        make_agent(
            TrainConfig("async", env="tests.tiny_teams:Shifts", network="cnn", total_steps=9)
        )
    with pytest.raises(ConfigError, match="network: cnn is learned by ppo alone"):
        config_of(algorithm="sac", settings={"network": "cnn"})
    with pytest.raises(ConfigError, match="size 9 do not fit into the 8 x 8"):
        make_agent(config_of(settings={"network_args": {"convolutions": [[4, 9, 1]]}}))
