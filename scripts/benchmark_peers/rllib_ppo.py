"""RLlib's PPO (new API stack): env runners in Ray actors, one a core, and its own learner.

A sampler's rollout fragment is one env's share of the batch, as everywhere here.
"""

from __future__ import annotations

from typing import Any

import task
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env


def main() -> None:
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    made = task.chosen_env()

    def env_of(config: Any) -> Any:
        return made()

    register_env("cage2", env_of)
    config = (
        PPOConfig()
        .environment("cage2")
        .env_runners(
            num_env_runners=task.N_CORES,
            # The driver waits while they collect: a core for it would lie idle.
            num_cpus_per_env_runner=0.5,
            num_envs_per_env_runner=task.N_ENVS // task.N_CORES,
            rollout_fragment_length=task.N_STEPS,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(task.HIDDEN), fcnet_activation="tanh", vf_share_layers=False
            )
        )
        .training(
            lr=task.LEARNING_RATE,
            gamma=task.GAMMA,
            train_batch_size_per_learner=task.N_ENVS * task.N_STEPS,
            minibatch_size=task.MINIBATCH,
            num_epochs=task.EPOCHS,
            entropy_coeff=task.ENTROPY_COEF,
            use_kl_loss=False,
            clip_param=task.CLIP,
            vf_clip_param=float("inf"),
            vf_loss_coeff=task.VALUE_COEF,
            grad_clip=task.MAX_GRAD_NORM,
            lambda_=task.LAMBDA,
        )
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    while True:
        algorithm.train()


if __name__ == "__main__":
    main()
