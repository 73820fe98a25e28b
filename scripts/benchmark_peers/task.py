"""What every peer trains on and with: an environment that notes its episodes; PPO's settings.

A peer's script is called as `python NAME_ppo.py SIMULATOR [in-process]` and trains until it is
stopped; "in-process", which some scripts have, steps all envs in the script's own process. This
file itself is called as `python task.py SIMULATOR` and plays without a learner: a process for each
core acts at random.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium

ENV = "workflow_rl:workflow_rl/CAGE2-v0"
RED_AGENT = "B_lineAgent"
N_ENVS, N_STEPS = 8, 300
EPOCHS, MINIBATCH, LEARNING_RATE = 4, 600, 1e-3
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2
VALUE_COEF, ENTROPY_COEF, MAX_GRAD_NORM = 0.5, 0.0, 0.5
HIDDEN = (64, 64)
"""With tanh; actor and critic share nothing."""
REWARD_SCALE = 0.01
"""For the critic's sake: of returns in the hundreds, clipping leaves nothing but its gradient."""
FOREVER = 10**9
N_CORES = max(n for n in (1, 2, 4, 8) if n <= len(os.sched_getaffinity(0)))
"""As many of the usable cores as share the envs evenly."""
IN_PROCESS = "in-process"
LOG_FOLDER = "PEERS_EPISODES"
"""Environment variable: the folder for what `Noted` notes."""


class Noted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds a line to a file of its process when an episode ends: seconds since 1970, return."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._return = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        if terminated or truncated:
            path = Path(os.environ[LOG_FOLDER]) / f"{os.getpid()}.txt"
            with path.open("a") as file:
                file.write(f"{time.time()} {self._return}\n")
        return obs, reward, terminated, truncated, info


def make_env(simulator: str) -> gymnasium.Env[Any, Any]:
    env = Noted(gymnasium.make(ENV, red_agent=RED_AGENT, simulator=simulator))
    return gymnasium.wrappers.TransformReward(env, scaled)


def scaled(reward: Any) -> float:
    return REWARD_SCALE * float(reward)


def is_in_process() -> bool:
    return IN_PROCESS in sys.argv[2:]


def chosen_env() -> partial[gymnasium.Env[Any, Any]]:
    """Return a function that makes an env of the simulator that this script was called with."""
    return partial(make_env, sys.argv[1])


def play_at_random(index: int, parent: int) -> None:
    env = chosen_env()()
    env.action_space.seed(index)
    env.reset(seed=index)
    while os.getppid() == parent:  # Nobody else would end this process if the parent were killed.
        if env.step(env.action_space.sample())[3]:
            env.reset()


if __name__ == "__main__":
    caller = os.getppid()
    for number in range(N_CORES):
        multiprocessing.get_context("fork").Process(
            target=play_at_random, args=(number, os.getpid()), daemon=True
        ).start()
    while os.getppid() == caller:
        time.sleep(1)
