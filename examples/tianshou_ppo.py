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
N_ENVS = 100


def make_env() -> gymnasium.Env:
    return gymnasium.make("workflow_rl:workflow_rl/CAGE2-v0", simulator="compiled")


torch.set_num_threads(1)  # Networks of this size gain nothing from more.
torch.manual_seed(SEED)
envs, further_envs = (DummyVectorEnv([make_env] * N_ENVS) for _ in range(2))
envs.seed(SEED)
further_envs.seed(10**6)
space, actions = envs.observation_space[0].shape, envs.action_space[0]
nets = [
    Net(state_shape=space, hidden_sizes=[64, 64], activation=torch.nn.Tanh) for _ in range(2)
]
actor = DiscreteActor(preprocess_net=nets[0], action_shape=actions.n, softmax_output=False)
policy = ProbabilisticActorPolicy(
    actor=actor,
    dist_fn=lambda logits: Categorical(logits=logits),
    action_space=actions,
    action_scaling=False,
    deterministic_eval=True,
)
algorithm = PPO(
    policy=policy,
    critic=DiscreteCritic(preprocess_net=nets[1]),
    optim=AdamOptimizerFactory(lr=1e-3),
    ent_coef=0.0,
    max_grad_norm=0.5,
)
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
test = Collector[CollectStats](algorithm, further_envs)
test.reset()
stats = test.collect(n_episode=100)
print(f"{collector.collect_step} steps in {seconds:.0f} s; return {stats.returns.mean():.1f}")
