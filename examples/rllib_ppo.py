"""RLlib's PPO (new API stack) against B_line, in one process, with all envs stepped in one call.

Usage: [STEPS=300000] [SEED=0] python examples/rllib_ppo.py
"""

import os
import time

import gymnasium
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

STEPS, SEED = int(os.environ.get("STEPS", 300_000)), int(os.environ.get("SEED", 0))
ENV = "workflow_rl:workflow_rl/CAGE2-v0"

config = (
    PPOConfig()
    .environment(ENV, env_config={"red_agent": "B_lineAgent"})
    .env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=100,
        rollout_fragment_length=20,
        gym_env_vectorize_mode="vector_entry_point",
    )
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
    .training(
        lr=1e-3,
        train_batch_size_per_learner=2000,
        minibatch_size=500,
        num_epochs=4,
        entropy_coeff=0.0,
        use_kl_loss=False,
        clip_param=0.2,
        vf_clip_param=float("inf"),
        vf_loss_coeff=0.5,
        grad_clip=0.5,
        lambda_=0.95,
    )
    .debugging(seed=SEED)
)
torch.set_num_threads(1)  # Networks of this size gain nothing from more.
algorithm = config.build_algo()
start = time.perf_counter()
steps = 0
while steps < STEPS:
    steps = int(algorithm.train()["num_env_steps_sampled_lifetime"])
seconds = time.perf_counter() - start
module = algorithm.get_module()
envs = gymnasium.make_vec(ENV, num_envs=100, red_agent="B_lineAgent")
mean, (obs, _) = 0.0, envs.reset(seed=10**6)
for _ in range(100):
    logits = module.forward_inference({Columns.OBS: torch.from_numpy(obs)})
    obs, rewards, *_ = envs.step(logits[Columns.ACTION_DIST_INPUTS].argmax(-1).numpy())
    mean += rewards.mean()
print(f"{steps} steps in {seconds:.0f} s; return {mean:.1f}")
