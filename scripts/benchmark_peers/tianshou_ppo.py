"""Tianshou's PPO on its SubprocVectorEnv, a process for each env, or its DummyVectorEnv."""

from __future__ import annotations

import task
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch.distributions import Categorical


def main() -> None:
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    torch.manual_seed(0)
    vector_env = DummyVectorEnv if task.is_in_process() else SubprocVectorEnv
    envs = vector_env([task.chosen_env()] * task.N_ENVS)
    actions = envs.action_space[0]
    net = {"state_shape": (52,), "hidden_sizes": list(task.HIDDEN), "activation": torch.nn.Tanh}
    policy = ProbabilisticActorPolicy(
        actor=DiscreteActor(
            preprocess_net=Net(**net), action_shape=actions.n, softmax_output=False
        ),
        dist_fn=lambda logits: Categorical(logits=logits),
        action_space=actions,
        action_scaling=False,
    )
    algorithm = PPO(
        policy=policy,
        critic=DiscreteCritic(preprocess_net=Net(**net)),
        optim=AdamOptimizerFactory(lr=task.LEARNING_RATE),
        gamma=task.GAMMA,
        gae_lambda=task.LAMBDA,
        eps_clip=task.CLIP,
        vf_coef=task.VALUE_COEF,
        ent_coef=task.ENTROPY_COEF,
        max_grad_norm=task.MAX_GRAD_NORM,
    )
    steps = task.N_ENVS * task.N_STEPS
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=Collector[CollectStats](
                algorithm, envs, VectorReplayBuffer(steps, task.N_ENVS)
            ),
            max_epochs=1,
            epoch_num_steps=task.FOREVER,
            collection_step_num_env_steps=steps,
            update_step_num_repetitions=task.EPOCHS,
            batch_size=task.MINIBATCH,
            show_progress=False,
            verbose=False,
        )
    )


if __name__ == "__main__":
    main()
