"""RLlib's multi-agent PPO (new API stack) on CAGE-4: two policies for the team of five.

Usage: [STEPS=49900] [SEED=0] python examples/rllib_cage4.py
"""

import os
import time

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

from workflow_rl.cage4 import parallel_env

STEPS, SEED = int(os.environ.get("STEPS", 49_900)), int(os.environ.get("SEED", 0))


def policy_of(agent, episode, **kwargs):
    return "headquarters" if agent == "blue_agent_4" else "zone"


register_env("CAGE4", lambda _: ParallelPettingZooEnv(parallel_env()))
config = (
    PPOConfig()
    .environment("CAGE4")
    .multi_agent(policies={"zone", "headquarters"}, policy_mapping_fn=policy_of)
    .env_runners(
        num_env_runners=0,
        env_to_module_connector=lambda *_: FlattenObservations(multi_agent=True),
    )
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
    .training(
        lr=1e-3,
        train_batch_size_per_learner=4990,
        minibatch_size=1000,
        num_epochs=4,
        use_kl_loss=False,
        vf_clip_param=float("inf"),
        grad_clip=0.5,
    )
    .reporting(metrics_num_episodes_for_smoothing=10)
    .debugging(seed=SEED)
)
torch.set_num_threads(1)  # Networks of this size gain nothing from more.
algorithm = config.build_algo()
start = time.perf_counter()
steps = 0
while steps < STEPS:
    result = algorithm.train()["env_runners"]
    steps = int(result["num_env_steps_sampled_lifetime"])
seconds = time.perf_counter() - start
# All agents get the team's reward, so the sum over the agents is five times the team's return.
returns = result["episode_return_mean"] / 5
print(f"{steps} steps in {seconds:.0f} s; return {returns:.1f}")
