"""Envs that draw from the process's random state: seeds determine their episodes all the same."""

from __future__ import annotations

import random

import numpy as np
import torch

from tests.globally_drawing_env import GloballyDrawing
from workflow_rl import TrainConfig, evaluate, train
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.making import PrivateRandom
from workflow_rl.runs.checkpoint_file import read_values


def played(env: PrivateRandom, seed: int, steps: int = 5) -> list[float]:
    env.reset(seed=seed)
    return [float(env.step(0)[1]) for _ in range(steps)]


def test_an_episode_follows_from_its_seed_whatever_else_plays():
    alone, other = PrivateRandom(GloballyDrawing), PrivateRandom(GloballyDrawing)
    expected = played(alone, 3)
    assert played(other, 3) == expected
    alone.reset(seed=3)
    other.reset(seed=4)
    between = []
    for _ in expected:
        between.append(float(alone.step(0)[1]))
        other.step(1)
    assert between == expected
    assert played(alone, 4) != expected


def test_without_a_seed_an_episode_goes_on_with_the_envs_own_state():
    env, other = PrivateRandom(GloballyDrawing), PrivateRandom(GloballyDrawing)
    env.reset(seed=3)
    following = env.reset()[0]
    env.reset(seed=3)
    other.reset(seed=9)
    random.random()
    assert np.array_equal(env.reset()[0], following)


def test_the_check_finds_out_who_needs_it():
    needs = GymnasiumEnvironment("drawing", {}, GloballyDrawing)
    assert needs.check() is None
    assert isinstance(needs.make_env(), PrivateRandom)
    does_not = GymnasiumEnvironment("CartPole-v1")
    assert does_not.check() is None
    assert not isinstance(does_not.make_env(), PrivateRandom)


def test_weights_do_not_depend_on_the_workers(tmp_path, caplog):
    def weights(mode: str, n_workers: int, resume: bool = False) -> dict[str, torch.Tensor]:
        config = TrainConfig(
            mode, n_envs=4, n_workers=n_workers, env="tests.globally_drawing_env:GloballyDrawing",
            total_episodes=48 if resume else 24, episodes_per_update=8,
        )  # fmt: skip
        path = train(config, tmp_path / f"{mode}-{n_workers}", resume=resume)
        found: dict[str, torch.Tensor] = read_values(path / "checkpoint.safetensors")["agent"][
            "network"
        ]
        return found

    first = weights("async", 1)
    assert "draws from the random state of the whole process" in caplog.text
    for other in (weights("async", 3), weights("sync", 2)):
        assert all(torch.equal(first[name], other[name]) for name in first)
    gone_on = weights("async", 1, resume=True), weights("sync", 2, resume=True)
    assert all(torch.equal(gone_on[0][name], gone_on[1][name]) for name in first)
    returns = [
        evaluate(tmp_path / "async-1", 6, n_workers=n_workers, trust=True).returns
        for n_workers in (1, 2)
    ]
    assert returns[0] == returns[1]
