"""TorchRL's PPO: its collector over a ParallelEnv, a process for each env, or a SerialEnv."""

from __future__ import annotations

import task
import torch
from tensordict.nn import TensorDictModule
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import EnvBase, GymWrapper, ParallelEnv, SerialEnv
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

MADE = task.chosen_env()


def wrapped() -> EnvBase:
    return GymWrapper(MADE(), categorical_action_encoding=True)


def main() -> None:
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    torch.manual_seed(0)
    if task.is_in_process():
        envs = SerialEnv(task.N_ENVS, wrapped)
    else:
        envs = ParallelEnv(task.N_ENVS, wrapped, mp_start_method="spawn")
    network = {"num_cells": list(task.HIDDEN), "activation_class": torch.nn.Tanh}
    actor = ProbabilisticActor(
        TensorDictModule(
            MLP(in_features=52, out_features=145, **network), ["observation"], ["logits"]
        ),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(in_features=52, out_features=1, **network), ["observation"])
    advantage = GAE(gamma=task.GAMMA, lmbda=task.LAMBDA, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=task.CLIP,
        entropy_bonus=task.ENTROPY_COEF > 0,
        entropy_coeff=task.ENTROPY_COEF,
        critic_coeff=task.VALUE_COEF,
        loss_critic_type="l2",
    )
    optimizer = torch.optim.Adam(loss.parameters(), lr=task.LEARNING_RATE)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(task.N_ENVS * task.N_STEPS),
        sampler=SamplerWithoutReplacement(),
        batch_size=task.MINIBATCH,
    )
    for rollout in Collector(
        envs, actor, frames_per_batch=task.N_ENVS * task.N_STEPS, total_frames=-1
    ):
        with torch.no_grad():
            advantage(rollout)
        buffer.extend(rollout.flatten())
        for _ in range(task.EPOCHS):
            for batch in buffer:
                losses = loss(batch)
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), task.MAX_GRAD_NORM)
                optimizer.step()


if __name__ == "__main__":
    main()
