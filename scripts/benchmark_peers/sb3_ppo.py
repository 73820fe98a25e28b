"""Stable-Baselines3's PPO on its SubprocVecEnv, a process for each env, or its DummyVecEnv."""

from __future__ import annotations

import task
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor


def main() -> None:
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    vec_env = DummyVecEnv if task.is_in_process() else SubprocVecEnv
    model = PPO(
        "MlpPolicy",
        VecMonitor(vec_env([task.chosen_env()] * task.N_ENVS)),
        policy_kwargs={"net_arch": list(task.HIDDEN)},
        n_steps=task.N_STEPS,
        batch_size=task.MINIBATCH,
        n_epochs=task.EPOCHS,
        learning_rate=task.LEARNING_RATE,
        gamma=task.GAMMA,
        gae_lambda=task.LAMBDA,
        clip_range=task.CLIP,
        ent_coef=task.ENTROPY_COEF,
        vf_coef=task.VALUE_COEF,
        max_grad_norm=task.MAX_GRAD_NORM,
        seed=0,
        device="cpu",
    )
    model.learn(task.FOREVER)


if __name__ == "__main__":
    main()
