"""Train Stable-Baselines3's PPO on images, with the networks and the settings of
docs/how-to/images.md, and score agents in whole games of Breakout.

Call it in the folder of the page's my_games.py. doorkey needs minigrid.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import click
import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from torch import nn

N_HIDDEN = 128
N_ENVS, UNROLL = 8, 128
FIRST_GAME = 1_000_000
"""The seed of a score's first game."""


class SmallConvolutions(BaseFeaturesExtractor):
    """Three convolutions of 2 x 2, and one hidden layer."""

    def __init__(self, space: Any) -> None:
        super().__init__(space, N_HIDDEN)
        convolutions: list[nn.Module] = []
        for n_in, n_out in ((3, 16), (16, 32), (32, 64)):
            convolutions += [nn.Conv2d(n_in, n_out, 2), nn.ReLU()]
        hidden = nn.Linear(64 * 4 * 4, N_HIDDEN)
        self.layers = nn.Sequential(*convolutions, nn.Flatten(), hidden, nn.ReLU())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return features [B, N_HIDDEN] of images [B, 3, 7, 7]."""
        features: torch.Tensor = self.layers(obs)
        return features


def train(
    make: Callable[[], Any],
    features: type[BaseFeaturesExtractor],
    seed: int,
    n_steps: int,
    **settings: Any,
) -> PPO:
    """Return the agent after a training, with one thread of torch. Print what the training took,
    and the mean return at its end."""
    torch.set_num_threads(1)
    network = {"features_extractor_class": features, "net_arch": []}
    settings |= {
        **{"n_steps": UNROLL, "batch_size": 256, "n_epochs": 4, "ent_coef": 0.01},
        # Here the loss is the squared error, and not half of it.
        **{"vf_coef": 0.25, "seed": seed, "device": "cpu"},
        "policy_kwargs": {**network, "optimizer_kwargs": {"eps": 1e-5}},
    }
    agent = PPO("CnnPolicy", make_vec_env(make, N_ENVS, seed), **settings)
    begun = time.perf_counter()
    agent.learn(n_steps)
    wall = time.perf_counter() - begun
    assert agent.ep_info_buffer is not None
    last = [episode["r"] for episode in agent.ep_info_buffer]
    mean = sum(last) / len(last)
    print(f"{time.process_time():.1f} CPU s, {wall:.1f} s, {mean:.3f} in the last 100 episodes")
    return agent


def game(**args: Any) -> Any:
    """Return the page's game."""
    sys.path.insert(0, "")
    return importlib.import_module("my_games").game(**args)


def print_points(agent: Any, n_games: int) -> None:
    """Play whole games by sampled actions, or by uniformly random ones without an agent. Print the
    mean of their points, with its 95% interval."""
    from workflow_rl.evaluation.intervals import mean_of

    env = game(whole=True)
    env.action_space.seed(FIRST_GAME)
    points = []
    for seed in range(FIRST_GAME, FIRST_GAME + n_games):
        obs, _ = env.reset(seed=seed)
        points.append(0.0)
        is_over = False
        while not is_over:
            if agent is None:
                action = env.action_space.sample()
            else:
                action, _ = agent.predict(obs, deterministic=False)
            obs, reward, terminated, truncated, _ = env.step(int(action))
            points[-1] += reward
            is_over = terminated or truncated
    print(f"{mean_of([points])} points in {n_games} games")


GAMES = click.option("--games", type=click.IntRange(2), default=30, help="Of the score.")


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("seed", type=int)
@click.argument("n_steps", type=int)
def doorkey(seed: int, n_steps: int) -> None:
    """Train on MiniGrid-DoorKey-5x5."""
    from minigrid.wrappers import ImgObsWrapper

    def make() -> Any:
        return ImgObsWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0"))

    train(make, SmallConvolutions, seed, n_steps, learning_rate=1e-3)


@main.command()
@click.argument("seed", type=int)
@click.argument("n_steps", type=int)
@GAMES
def breakout(seed: int, n_steps: int, games: int) -> None:
    """Train on Breakout and score the agent."""

    def learning_rate(rest: float) -> float:
        # Here `rest` is counted after a rollout, and in this package before.
        return 2.5e-4 * (rest + N_ENVS * UNROLL / n_steps)

    settings = {"learning_rate": learning_rate, "clip_range": 0.1}
    print_points(train(game, NatureCNN, seed, n_steps, **settings), games)


@main.command()
@click.argument("run")
@GAMES
def score(run: str, games: int) -> None:
    """Score a checkpoint of this package in Breakout, or "random"."""
    from workflow_rl import load_agent

    print_points(None if run == "random" else load_agent(run), games)


if __name__ == "__main__":
    main()
