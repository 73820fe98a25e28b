"""Train Stable-Baselines3's PPO on MiniGrid-DoorKey-5x5, with the network and the settings of
docs/how-to/images.md. Print the CPU seconds, the wall seconds and the mean return at the end.

Needs minigrid.
"""

from __future__ import annotations

import time
from typing import Any

import click
import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

N_HIDDEN = 128


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


@click.command(help=__doc__)
@click.argument("seed", type=int)
@click.argument("n_steps", type=int)
def main(seed: int, n_steps: int) -> None:
    from minigrid.wrappers import ImgObsWrapper

    torch.set_num_threads(1)
    envs = make_vec_env(lambda: ImgObsWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0")), 8, seed)
    network = {"features_extractor_class": SmallConvolutions, "net_arch": []}
    settings: dict[str, Any] = {
        **{"learning_rate": 1e-3, "n_steps": 128, "batch_size": 256, "n_epochs": 4},
        **{"ent_coef": 0.01, "vf_coef": 0.25, "seed": seed, "device": "cpu"},
        "policy_kwargs": {**network, "optimizer_kwargs": {"eps": 1e-5}},
    }
    agent = PPO("CnnPolicy", envs, **settings)
    begun = time.perf_counter()
    agent.learn(n_steps)
    wall = time.perf_counter() - begun
    assert agent.ep_info_buffer is not None
    last = np.mean([episode["r"] for episode in agent.ep_info_buffer])
    print(f"{time.process_time():.1f} CPU s, {wall:.1f} s, {last:.3f} in the last 100 episodes")


if __name__ == "__main__":
    main()
