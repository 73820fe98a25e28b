"""Stable-Baselines3's PPO against B_line, with all envs stepped in one call.

Usage: [STEPS=300000] [SEED=0] python examples/sb3_ppo.py
"""

import os
import time

import torch
from sb3_vec_env import BatchedVecEnv
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

STEPS = int(os.environ.get("STEPS", 300_000))
SEED = int(os.environ.get("SEED", 0))


def make_envs(seed: int) -> VecEnv:
    envs = VecMonitor(BatchedVecEnv(100, red_agent="B_lineAgent"))
    envs.seed(seed)
    return envs


torch.set_num_threads(1)  # Networks of this size gain nothing from more.
model = PPO(
    "MlpPolicy",
    make_envs(SEED),
    n_steps=20,
    batch_size=500,
    n_epochs=4,
    learning_rate=1e-3,
    seed=SEED,
    device="cpu",
)
start = time.perf_counter()
model.learn(STEPS)
seconds = time.perf_counter() - start
mean, _ = evaluate_policy(model, make_envs(10**6), n_eval_episodes=100)
print(f"{model.num_timesteps} steps in {seconds:.0f} s; return {mean:.1f}")
