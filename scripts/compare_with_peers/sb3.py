"""PPO or SAC of Stable-Baselines3, or RecurrentPPO of sb3-contrib, on one of the tasks.

    python sb3.py TASK STEPS SEED START

Prints the return, and the seconds from START, a time since the epoch, to the last update.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import tasks
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize


def make_envs(task: tasks.Task, n_envs: int, seed: int) -> VecEnv:
    module, _, name = task.env.partition(":")
    return make_vec_env(
        getattr(importlib.import_module(module), name) if name else module, n_envs, seed
    )


def train(task: tasks.Task, steps: int, seed: int, start: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    settings = task.settings()
    n_envs, normalise = settings.pop("n_envs"), settings.pop("normalize")
    shape = settings.get("policy_kwargs", {})
    if "activation" in shape:
        shape["activation_fn"] = getattr(torch.nn, shape.pop("activation"))
    envs = make_envs(task, n_envs, seed)
    if normalise:
        envs = VecNormalize(envs, gamma=settings["gamma"])
    package = "stable_baselines3" if task.peer in ("PPO", "SAC") else "sb3_contrib"
    kind = getattr(importlib.import_module(package), task.peer)
    policy = "MlpLstmPolicy" if task.peer == "RecurrentPPO" else "MlpPolicy"
    model = kind(policy, envs, seed=seed, device="cpu", **settings)
    model.learn(steps)
    seconds = time.time() - start
    test = make_envs(task, 1, 10_000 + seed)
    if isinstance(envs, VecNormalize):
        test = VecNormalize(test, training=False, norm_reward=False)
        test.obs_rms = envs.obs_rms
    mean, _ = evaluate_policy(model, test, n_eval_episodes=tasks.EPISODES, deterministic=True)
    assert isinstance(mean, float)
    return {"return": mean, "seconds": seconds}


if __name__ == "__main__":
    name, steps, seed, start = sys.argv[1:]
    print(json.dumps(train(tasks.TASKS[name], int(steps), int(seed), float(start))))
