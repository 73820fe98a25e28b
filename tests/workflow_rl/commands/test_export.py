"""Trained agents in formats that others read: what comes out there is what the policy computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from gymnasium import spaces

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import DiagonalGaussian
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.policy_file import load_policy, save_policy
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.commands.export import export
from workflow_rl.environments.flat_env import distribution_over
from workflow_rl.runs.saved_agent import load_saved

CART_POLE = {"env": "CartPole-v1", "env_args": {}}


def parameters(normalised: bool = False) -> PolicyParameters:
    distribution = DiagonalGaussian(2, (500.0, 0.0), (500.0, 1.0)) if normalised else Categorical(2)
    policy = ActorCritic(4, distribution, (16, 8), "tanh", seed=1).policy_parameters()
    if not normalised:
        return policy
    mean, scale = np.arange(4, dtype=np.float32), np.full(4, 3, np.float32)
    return policy._replace(obs_mean=mean, obs_scale=scale)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(export, list(map(str, arguments)))


def saved(folder: Path, policy: PolicyParameters, about: dict[str, Any] = CART_POLE) -> Path:
    path = folder / "agent.npz"
    save_policy(path, policy, about)
    return path


def expected(policy: PolicyParameters, obs: np.ndarray) -> np.ndarray:
    """Logits, or the means of continuous actions in the units of the environment."""
    actor = NumpyPolicy(policy, greedy=True)
    return actor.act_batch(obs, [])[0] if actor.distribution.has_log_std else actor.outputs(obs)


OBS = np.random.default_rng(0).normal(scale=5, size=(7, 4)).astype(np.float32)


def test_a_file_is_replaced_only_if_that_is_asked_for(tmp_path: Path) -> None:
    agent, output = saved(tmp_path, parameters(True)), tmp_path / "again.npz"
    result = run(agent, "--format", "npz", "--output", output)
    assert result.exit_code == 0, result.output
    written = output.read_bytes()
    again = run(agent, "--format", "npz", "--output", output)
    assert again.exit_code == 2
    assert "--overwrite" in again.output
    assert output.read_bytes() == written
    again = run(agent, "--format", "npz", "--output", output, "--overwrite")
    assert again.exit_code == 0, again.output


def test_numbers_leave_no_bound_in_any_format(tmp_path: Path) -> None:
    space = spaces.Box(
        np.array([0, -np.inf, 2, -1], np.float32), np.array([np.inf, 0, 2, 1], np.float32)
    )
    actions = distribution_over(space)
    policy = ActorCritic(4, actions, (8,), "tanh", seed=1).policy_parameters()
    policy = policy._replace(weights=(*policy.weights[:-1], policy.weights[-1] * 100))
    agent = saved(tmp_path, policy)
    outputs = {}
    for name, ending in (("onnx", "onnx"), ("npz", "npz")):
        file = tmp_path / f"written.{ending}"
        result = run(agent, "--format", name, "--output", file)
        assert result.exit_code == 0, result.output
        if name == "onnx":
            onnxruntime = pytest.importorskip("onnxruntime")
            (outputs[name],) = onnxruntime.InferenceSession(str(file)).run(None, {"obs": OBS})
        else:
            again = load_policy(file)[0]
            outputs[name] = TorchActor(again)(torch.from_numpy(OBS)).detach().numpy()
    ours = np.clip(expected(policy, OBS), space.low, space.high)
    assert not np.array_equal(ours, expected(policy, OBS))
    for name, of in outputs.items():
        np.testing.assert_allclose(of, ours, rtol=1e-5, atol=1e-6, err_msg=name)
        assert all(map(space.contains, of)), name


@pytest.mark.parametrize("normalised", [False, True])
def test_onnx_agrees(normalised: bool, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = parameters(normalised)
    agent, output = saved(tmp_path, policy), tmp_path / "agent.onnx"
    result = run(agent, "--format", "onnx", "--output", output)
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(str(output))
    for obs in (OBS, OBS[:1]):
        (outputs,) = session.run(None, {"obs": obs})
        np.testing.assert_allclose(outputs, expected(policy, obs), rtol=1e-5, atol=1e-6)


def test_a_policy_file_is_an_agent_like_any_other(tmp_path: Path) -> None:
    policy = parameters()
    output = tmp_path / "again.npz"
    result = run(saved(tmp_path, policy), "--format", "npz", "--output", output)
    assert result.exit_code == 0, result.output
    loaded, environment = load_saved(output)
    assert environment.env_id == "CartPole-v1"
    assert np.array_equal(loaded.outputs(OBS), expected(policy, OBS))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none"], "there is no checkpoint at none"),
        (["agent.npz", "--format", "cage2"], "cage2 is not for agents of CartPole-v1"),
        (["agent.npz", "--output", "folder.npz"], "folder.npz is a folder: give a file"),
        (["agent.npz", "--output", "out"], "give a name that ends in .npz"),
        (["agent.npz", "--which", "latest"], "--which latest goes with a run folder"),
        (["broken.npz"], "broken.npz is no policy file"),
        (["nowhere.npz"], "does not say what environment it is for"),
    ],
)
def test_what_is_wrong_is_one_clear_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, parameters())
    Path("broken.npz").write_bytes(b"nothing")
    Path("folder.npz").mkdir()
    save_policy(Path("nowhere.npz"), parameters(), {"env": "Nowhere-v0"})
    defaults = ["--format", "npz", "--output", "out.npz"]
    options = [
        word
        for name, value in zip(defaults[::2], defaults[1::2], strict=True)
        if name not in arguments
        for word in (name, value)
    ]
    result = run(*arguments, *options)
    assert result.exit_code == 2
    assert message in result.output
    assert not Path("out.npz").exists()
