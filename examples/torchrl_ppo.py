"""TorchRL's PPO against B_line: its wrapper of the vector env, collector, buffer and loss.

Usage: [STEPS=300000] [SEED=0] python examples/torchrl_ppo.py
"""

import os
import time

import gymnasium
import torch
from gymnasium.vector import AutoresetMode
from tensordict.nn import TensorDictModule
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

STEPS, SEED = int(os.environ.get("STEPS", 300_000)), int(os.environ.get("SEED", 0))
ENV = "workflow_rl:workflow_rl/CAGE2-v0"
torch.set_num_threads(1)  # Networks of this size gain nothing from more.
torch.manual_seed(SEED)
vector_env = gymnasium.make_vec(ENV, num_envs=100, autoreset_mode=AutoresetMode.DISABLED)
envs = GymWrapper(vector_env, categorical_action_encoding=True)
envs.set_seed(SEED)
network = {"num_cells": [64, 64], "activation_class": torch.nn.Tanh}
logits = MLP(in_features=52, out_features=145, **network)
actor = ProbabilisticActor(
    TensorDictModule(logits, ["observation"], ["logits"]),
    in_keys=["logits"],
    distribution_class=Categorical,
    return_log_prob=True,
)
critic = ValueOperator(MLP(in_features=52, out_features=1, **network), ["observation"])
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
loss = ClipPPOLoss(actor, critic, entropy_coeff=0.0, critic_coeff=0.5)
optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
buffer = TensorDictReplayBuffer(
    storage=LazyTensorStorage(2000), sampler=SamplerWithoutReplacement(), batch_size=500
)
start = time.perf_counter()
for rollout in Collector(envs, actor, frames_per_batch=2000, total_frames=STEPS):
    with torch.no_grad():
        advantage(rollout)
    buffer.extend(rollout.flatten())
    for _ in range(4):
        for batch in buffer:
            losses = loss(batch)
            optimizer.zero_grad()
            (losses["loss_objective"] + losses["loss_critic"]).backward()
            torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimizer.step()
seconds = time.perf_counter() - start
envs.set_seed(10**6)
with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
    mean = envs.rollout(100, actor)["next", "reward"].sum(1).mean()
print(f"{STEPS} steps in {seconds:.0f} s; return {mean:.1f}")
