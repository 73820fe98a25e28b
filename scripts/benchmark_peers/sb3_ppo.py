"""Stable-Baselines3's PPO on its SubprocVecEnv, a process for each env, or its DummyVecEnv."""

from __future__ import annotations

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor
from task import (
    CLIP,
    ENTROPY_COEF,
    EPOCHS,
    FOREVER,
    GAMMA,
    HIDDEN,
    LAMBDA,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    MINIBATCH,
    N_ENVS,
    N_STEPS,
    VALUE_COEF,
    chosen_env,
    is_in_process,
)


def main() -> None:
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    vec_env = DummyVecEnv if is_in_process() else SubprocVecEnv
    model = PPO(
        "MlpPolicy",
        VecMonitor(vec_env([chosen_env()] * N_ENVS)),
        policy_kwargs={"net_arch": list(HIDDEN)},
        n_steps=N_STEPS,
        batch_size=MINIBATCH,
        n_epochs=EPOCHS,
        learning_rate=LEARNING_RATE,
        gamma=GAMMA,
        gae_lambda=LAMBDA,
        clip_range=CLIP,
        ent_coef=ENTROPY_COEF,
        vf_coef=VALUE_COEF,
        max_grad_norm=MAX_GRAD_NORM,
        seed=0,
        device="cpu",
    )
    model.learn(FOREVER)


if __name__ == "__main__":
    main()
