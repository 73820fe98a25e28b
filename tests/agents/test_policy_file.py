"""A policy as a file of plain arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.distributions import (
    Categorical,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
    SquashedGaussian,
)
from agents.networks import ActorCritic
from agents.numpy_policy import NumpyPolicy, PolicyParameters
from agents.policy_file import load_policy, save_policy


def policy_for(distribution: Distribution) -> PolicyParameters:
    network = ActorCritic(6, distribution, (16, 8), "relu", seed=1)
    return network.policy_parameters()


@pytest.mark.parametrize(
    "distribution",
    [
        Categorical(4),
        MultiCategorical([2, 3]),
        DiagonalGaussian(3),
        SquashedGaussian((-1.0, 0.0), (1.0, 4.0)),
    ],
)
@pytest.mark.parametrize("normalised", [False, True])
def test_what_is_loaded_acts_like_what_was_saved(
    distribution: Distribution, normalised: bool, tmp_path: Path
) -> None:
    policy = policy_for(distribution)
    if normalised:
        policy = policy._replace(
            obs_mean=np.full(6, 0.5, np.float32), obs_scale=np.full(6, 2, np.float32)
        )
    save_policy(tmp_path / "policy.npz", policy, {"env": "some", "env_args": {"n": 3}})
    loaded, about = load_policy(tmp_path / "policy.npz")
    assert about == {"env": "some", "env_args": {"n": 3}}
    obs = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    for greedy in (True, False):
        ours, theirs = (NumpyPolicy(p, greedy=greedy) for p in (policy, loaded))
        for one in (ours, theirs):
            one.reset(7)
        for row in obs:
            (action, log_prob), (same, same_log_prob) = ours.act(row[None]), theirs.act(row[None])
            assert np.array_equal(action, same)
            assert np.array_equal(log_prob, same_log_prob)


def test_what_is_no_policy_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    for content in (b"", b"PK no zip", b"\x80\x04K\x01."):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no policy file"):
            load_policy(path)
    np.savez(path, something=np.zeros(3))
    with pytest.raises(ValueError, match="is no policy file"):
        load_policy(path)


def test_layers_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    policy = policy_for(Categorical(4))
    broken = policy._replace(weights=(policy.weights[0], policy.weights[1][:5], policy.weights[2]))
    save_policy(tmp_path / "policy.npz", broken, {})
    with pytest.raises(ValueError, match="do not fit together"):
        load_policy(tmp_path / "policy.npz")


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": (), "biases": ()},
        {"weights": (np.float32(1),)},
        {"biases": (np.zeros((4, 1), np.float32),)},
        {"activation": "none"},
        {"activation": ["tanh"]},
        {"obs_mean": np.zeros(6, np.float32)},
        {"obs_mean": np.zeros(2, np.float32), "obs_scale": np.ones(2, np.float32)},
        {"log_std": np.zeros(4, np.float32)},
        {"distribution": DiagonalGaussian(4)},
    ],
)
def test_what_could_not_act_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    policy = ActorCritic(6, Categorical(4), (), "relu", seed=1).policy_parameters()
    save_policy(tmp_path / "policy.npz", policy._replace(**changes), {})
    with pytest.raises(ValueError, match="is no policy file"):
        load_policy(tmp_path / "policy.npz")


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    save_policy(path, policy_for(Categorical(4)), {"env": "some"})
    content = path.read_bytes()
    random, said = np.random.default_rng(0), list[str]()
    for place in random.integers(len(content), size=200).tolist():
        flipped = bytes([content[place] ^ 1 << int(random.integers(8))])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
        try:
            load_policy(path)
        except ValueError as error:
            said.append(str(error))
    assert len(said) > 100
    assert all("is no policy file" in one for one in said)


def test_nothing_of_a_file_is_run(tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    np.savez(path, settings=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(ValueError, match="is no policy file"):
        load_policy(path)
