"""Stable-Baselines3's PPO on the registered environment, which it takes as any other.

It is in requirements-dev.txt, for the package itself does without.

CleanRL's programs make their envs with Gymnasium alone:

    envs = gymnasium.make_vec("workflow_rl:workflow_rl/CAGE2-v0", num_envs=1000)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow_rl.cage2.cyborg.simulators import SIMULATORS
from workflow_rl.cage2.env.stable_baselines3_env import CompiledVecEnv

# The module before the colon registers the environment, in processes that SB3 starts as well.
ENV_ID = "workflow_rl:workflow_rl/CAGE2-v0"
PPO_OPTIONS: dict[str, Any] = {
    "batch_size": 500,
    "n_epochs": 4,
    "learning_rate": 1e-3,
    "device": "cpu",
}


def make_envs(n_envs: int, seed: int, simulator: str, batched: bool) -> VecEnv:
    if not batched:
        return make_vec_env(ENV_ID, n_envs, seed, env_kwargs={"simulator": simulator})
    envs = VecMonitor(CompiledVecEnv(n_envs))
    envs.seed(seed)
    return envs


@click.command(context_settings={"show_default": True})
@click.option("--total-steps", type=click.IntRange(1), default=300_000)
@click.option("--n-envs", type=click.IntRange(1, 1000), default=100)
@click.option("--simulator", type=click.Choice(SIMULATORS), default="compiled")
@click.option("--batched", is_flag=True, help="Step all compiled envs in one call.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0)
def main(total_steps: int, n_envs: int, simulator: str, batched: bool, seed: int) -> None:
    """Train PPO against B_line and print the mean return of 100 further episodes of 100 steps."""
    if batched and simulator != "compiled":
        raise click.UsageError(f"--batched steps --simulator compiled only, not {simulator}")
    torch.set_num_threads(1)  # Networks of this size gain nothing from more.
    envs = make_envs(n_envs, seed, simulator, batched)
    model = PPO("MlpPolicy", envs, n_steps=2000 // n_envs, seed=seed, **PPO_OPTIONS)
    start = time.perf_counter()
    model.learn(total_steps)
    seconds = time.perf_counter() - start
    evaluated = make_envs(10, 10**6, simulator, batched)
    mean, deviation = evaluate_policy(model, evaluated, n_eval_episodes=100)
    print(f"{model.num_timesteps} steps in {seconds:.1f} s; return {mean:.1f} ± {deviation:.1f}")


if __name__ == "__main__":
    main()
