"""Tianshou's PPO against B_line, with its own vector env of single envs.

Usage: [STEPS=300000] [SEED=0] python examples/tianshou_ppo.py
"""

import os
import time

import gymnasium
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch.distributions import Categorical

STEPS, SEED = int(os.environ.get("STEPS", 300_000)), int(os.environ.get("SEED", 0))
N_ENVS, ENV = 100, "workflow_rl:workflow_rl/CAGE2-v0"

torch.set_num_threads(1)  # Networks of this size gain nothing from more.
torch.manual_seed(SEED)
envs = DummyVectorEnv([lambda: gymnasium.make(ENV, simulator="compiled")] * N_ENVS)
envs.seed(SEED)
actions = envs.action_space[0]
net = {"state_shape": (52,), "hidden_sizes": [64, 64], "activation": torch.nn.Tanh}
actor = DiscreteActor(preprocess_net=Net(**net), action_shape=actions.n, softmax_output=False)
critic = DiscreteCritic(preprocess_net=Net(**net))
policy = ProbabilisticActorPolicy(
    actor=actor,
    dist_fn=lambda logits: Categorical(logits=logits),
    action_space=actions,
    action_scaling=False,
    deterministic_eval=True,
)
adam = AdamOptimizerFactory(lr=1e-3)
algorithm = PPO(policy=policy, critic=critic, optim=adam, ent_coef=0.0, max_grad_norm=0.5)
collector = Collector[CollectStats](algorithm, envs, VectorReplayBuffer(2000, N_ENVS))
start = time.perf_counter()
algorithm.run_training(
    OnPolicyTrainerParams(
        training_collector=collector,
        max_epochs=1,
        epoch_num_steps=STEPS,
        collection_step_num_env_steps=2000,
        update_step_num_repetitions=4,
        batch_size=500,
        show_progress=False,
        verbose=False,
    )
)
seconds = time.perf_counter() - start
envs.seed(10**6)
stats = Collector[CollectStats](algorithm, envs).collect(n_episode=100, reset_before_collect=True)
print(f"{collector.collect_step} steps in {seconds:.0f} s; return {stats.returns.mean():.1f}")
