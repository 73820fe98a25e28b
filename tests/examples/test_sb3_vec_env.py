"""Stable-Baselines3 on single envs, and on the batch of `examples/sb3_vec_env.py`."""

import runpy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv, VecMonitor

from workflow_rl.cage2.scenario2 import ACTION_NAMES

REPOSITORY = Path(__file__).parents[2]
BatchedVecEnv = runpy.run_path(str(REPOSITORY / "examples" / "sb3_vec_env.py"))["BatchedVecEnv"]
ENV_ID = "workflow_rl:workflow_rl/CAGE2-v0"
# SB3 asks for pictures first, and makes the env without when it refuses.
pytestmark = pytest.mark.filterwarnings("ignore:.*render_mode='rgb_array'")


def ppo(envs: VecEnv, **options: Any) -> PPO:
    arguments = {"n_steps": 120, "batch_size": 240, "learning_rate": 2e-3, "device": "cpu"}
    return PPO("MlpPolicy", envs, seed=0, **(arguments | options))


def mean_return(model: PPO, envs: VecEnv) -> float:
    envs.seed(1000)
    returns, _ = evaluate_policy(model, envs, n_eval_episodes=20, deterministic=False)
    assert isinstance(returns, float | np.floating)
    return float(returns)


def single_envs(n_envs: int, simulator: str = "compiled", **arguments: Any) -> VecEnv:
    arguments["simulator"] = simulator
    return make_vec_env(ENV_ID, n_envs, seed=0, env_kwargs=arguments)


def batched_envs(n_envs: int, **arguments: Any) -> VecEnv:
    envs = VecMonitor(BatchedVecEnv(n_envs, **arguments))
    envs.seed(0)
    return envs


def test_ppo_learns_the_same_on_single_envs_and_on_the_batch() -> None:
    models = []
    for envs in (single_envs(8, max_steps=30), batched_envs(8, max_steps=30)):
        model = ppo(envs)  # It seeds torch, so it learns before another is made.
        untrained = mean_return(model, batched_envs(20, max_steps=30))
        models.append(model.learn(1_000))
    single, batched = (model.policy.state_dict() for model in models)
    assert all(torch.equal(single[name], batched[name]) for name in single)
    models[1].learn(8_000)
    trained = mean_return(models[1], batched_envs(20, max_steps=30))
    # From -126 to -57 with these seeds.
    assert untrained < -100
    assert trained > untrained / 2 - 5


def test_the_batch_is_n_single_envs() -> None:
    single, batched = single_envs(3, max_steps=7), batched_envs(3, max_steps=7)
    assert batched.observation_space == single.observation_space
    assert batched.action_space == single.action_space
    random = np.random.default_rng(0)
    for _ in range(2):
        assert np.array_equal(single.reset(), batched.reset())
        for step in range(20):
            actions = random.integers(145, size=3)
            *expected, of_single = single.step(actions)
            *found, of_batched = batched.step(actions)
            for one, other in zip(expected, found, strict=True):
                assert one.dtype == other.dtype
                assert np.array_equal(one, other)
            ended = [step % 7 == 6] * 3
            assert found[2].tolist() == ended
            for one, other in zip(of_single, of_batched, strict=True):
                assert ("episode" in other) == ended[0]
                if ended[0]:
                    assert np.array_equal(
                        one["terminal_observation"], other["terminal_observation"]
                    )
                    assert one["TimeLimit.truncated"] is other["TimeLimit.truncated"] is True
                    assert other["episode"]["r"] == pytest.approx(one["episode"]["r"], abs=1e-4)
                    assert other["episode"]["l"] == one["episode"]["l"] == 7
        # The same seeds once more, whatever came before.
        single.seed(5)
        batched.seed(5)


def test_the_batch_says_that_no_attribute_can_be_set() -> None:
    envs = BatchedVecEnv(2)
    assert envs.get_attr("max_steps", [1]) == [100]
    assert envs.get_attr("simulator") == ["compiled"] * 2
    with pytest.raises(NotImplementedError, match="red_agent"):
        envs.set_attr("red_agent", "SleepAgent")


def test_action_masks_are_found_as_sb3_contrib_looks_for_them() -> None:
    single, batched = single_envs(2, max_steps=30), batched_envs(2, max_steps=30)
    decoy = ACTION_NAMES.index("DecoyApache Enterprise0")
    for envs in (single, batched):
        assert envs.has_attr("action_masks")
        envs.reset()
        envs.step(np.array([decoy, 0]))
    of_single, of_batched = (
        np.stack(envs.env_method("action_masks")) for envs in (single, batched)
    )
    assert of_single.dtype == of_batched.dtype == np.bool_
    assert np.array_equal(of_single, of_batched)
    assert of_batched[:, decoy].tolist() == [False, True]
    assert np.array_equal(batched.env_method("action_masks", indices=1)[0], of_batched[1])


@pytest.mark.parametrize("simulator", ["cyborg", "compiled"])
def test_sb3s_own_check_finds_no_fault(simulator: str) -> None:
    check_env(gymnasium.make(ENV_ID, simulator=simulator).unwrapped)


def test_processes_that_sb3_starts_find_the_environment() -> None:
    envs = make_vec_env(ENV_ID, 1, seed=3, env_kwargs={"max_steps": 2}, vec_env_cls=SubprocVecEnv)
    try:
        reference = batched_envs(1, max_steps=2)
        reference.seed(3)
        assert np.array_equal(envs.reset(), reference.reset())
        for _ in range(3):
            assert np.array_equal(envs.step([7])[0], reference.step(np.array([7]))[0])
    finally:
        envs.close()
