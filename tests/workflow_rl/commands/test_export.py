from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tests.cli import call, refused, said_by
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import DiagonalGaussian
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.policy_file import load_policy, save_policy
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.environments.flat_env import distribution_over

CART_POLE = {"env": "CartPole-v1", "env_args": {}}


def parameters(normalised: bool = False) -> PolicyParameters:
    distribution = DiagonalGaussian(2, (500.0, 0.0), (500.0, 1.0)) if normalised else Categorical(2)
    policy = ActorCritic(4, distribution, (16, 8), "tanh", seed=1).policy_parameters()
    if not normalised:
        return policy
    mean, scale = np.arange(4, dtype=np.float32), np.full(4, 3, np.float32)
    return policy._replace(obs_mean=mean, obs_scale=scale)


def saved(folder: Path, policy: PolicyParameters, about: dict[str, Any] = CART_POLE) -> Path:
    path = folder / "agent.npz"
    save_policy(path, policy, about)
    return path


def expected(policy: PolicyParameters, obs: np.ndarray) -> np.ndarray:
    """Logits, or the means of continuous actions in the units of the environment."""
    actor = NumpyPolicy(policy, greedy=True)
    return actor.act_batch(obs, [])[0] if actor.distribution.has_log_std else actor.outputs(obs)


OBS = np.random.default_rng(0).normal(scale=5, size=(7, 4)).astype(np.float32)


def test_numbers_leave_no_bound_in_any_format(tmp_path):
    space = spaces.Box(
        np.array([0, -np.inf, 2, -1], np.float32), np.array([np.inf, 0, 2, 1], np.float32)
    )
    actions = distribution_over(space)
    policy = ActorCritic(4, actions, (8,), "tanh", seed=1).policy_parameters()
    policy = policy._replace(weights=(*policy.weights[:-1], policy.weights[-1] * 100))
    agent = saved(tmp_path, policy)
    outputs = {}
    for name in ("onnx", "npz"):
        file = tmp_path / f"written.{name}"
        said_by("export", agent, f"--format {name} --output", file)
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
def test_onnx_agrees(normalised, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = parameters(normalised)
    agent, output = saved(tmp_path, policy), tmp_path / "agent.onnx"
    said_by("export", agent, "--format onnx --output", output)
    session = onnxruntime.InferenceSession(str(output))
    for obs in (OBS, OBS[:1]):
        (outputs,) = session.run(None, {"obs": obs})
        np.testing.assert_allclose(outputs, expected(policy, obs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("agent.npz --format cage2 --output out", "cage2 is not for agents of CartPole-v1"),
        ("agent.npz --format npz --output a.npz", "a.npz is a folder: give a file"),
        ("agent.npz --which latest --format npz --output out.npz", "goes with a run folder"),
        ("nowhere.npz --format npz --output out.npz", "does not say what environment it is for"),
    ],
)
def test_what_is_wrong_is_one_clear_line(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, parameters())
    Path("a.npz").mkdir()
    save_policy(Path("nowhere.npz"), parameters(), {"env": "Nowhere-v0"})
    refused(call("export", words), message)
    assert not list(tmp_path.glob("out*"))
