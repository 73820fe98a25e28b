"""RLlib's PPO (new API stack): env runners in Ray actors, one a core, and its own learner.

A sampler's rollout fragment is one env's share of the batch, as everywhere here.
"""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env
from task import (
    CLIP,
    ENTROPY_COEF,
    EPOCHS,
    GAMMA,
    HIDDEN,
    LAMBDA,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    MINIBATCH,
    N_CORES,
    N_ENVS,
    N_STEPS,
    VALUE_COEF,
    chosen_env,
)


def main() -> None:
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    made = chosen_env()

    def env_of(config: Any) -> Any:
        return made()

    register_env("cage2", env_of)
    config = (
        PPOConfig()
        .environment("cage2")
        .env_runners(
            num_env_runners=N_CORES,
            # The driver waits while they collect: a core for it would lie idle.
            num_cpus_per_env_runner=0.5,
            num_envs_per_env_runner=N_ENVS // N_CORES,
            rollout_fragment_length=N_STEPS,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(HIDDEN), fcnet_activation="tanh", vf_share_layers=False
            )
        )
        .training(
            lr=LEARNING_RATE,
            gamma=GAMMA,
            train_batch_size_per_learner=N_ENVS * N_STEPS,
            minibatch_size=MINIBATCH,
            num_epochs=EPOCHS,
            entropy_coeff=ENTROPY_COEF,
            use_kl_loss=False,
            clip_param=CLIP,
            vf_clip_param=float("inf"),
            vf_loss_coeff=VALUE_COEF,
            grad_clip=MAX_GRAD_NORM,
            lambda_=LAMBDA,
        )
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    while True:
        algorithm.train()


if __name__ == "__main__":
    main()
