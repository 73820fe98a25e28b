"""BenchMARL's MAPPO on one of MPE's tasks.

    python benchmarl_mappo.py TASK STEPS SEED START

Prints the return, summed over the agents, and the seconds from START, a time since the epoch, to
the last update.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from typing import Any

import mpe2
import mpe2.all_modules
import tasks
import torch

# BenchMARL and TorchRL look for MPE where PettingZoo had it before.
sys.modules |= {"pettingzoo.mpe": mpe2, "pettingzoo.mpe.all_modules": mpe2.all_modules}

from benchmarl.algorithms import MappoConfig  # noqa: E402
from benchmarl.environments import PettingZooTask  # noqa: E402
from benchmarl.experiment import Experiment, ExperimentConfig  # noqa: E402
from benchmarl.models.mlp import MlpConfig  # noqa: E402
from torchrl.envs.utils import ExplorationType, set_exploration_type  # noqa: E402


def train(name: str, steps: int, seed: int, start: float, folder: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    config = ExperimentConfig.get_from_yaml()
    for setting, value in tasks.TASKS[name].settings().items():
        setattr(config, setting, value)
    config.max_n_frames, config.save_folder = steps, folder
    config.prefer_continuous_actions = config.evaluation = config.create_json = False
    config.loggers = []
    task = getattr(PettingZooTask, name.upper()).get_from_yaml()
    task.config["max_cycles"] = tasks.CYCLES
    network = MlpConfig.get_from_yaml()
    network.num_cells = [64, 64]
    experiment = Experiment(
        task=task,
        algorithm_config=MappoConfig.get_from_yaml(),
        model_config=network,
        critic_model_config=network,
        seed=seed,
        config=config,
    )
    experiment.run()
    seconds = time.time() - start
    env, returns = experiment.test_env, []
    env.set_seed(10_000 + seed)
    # Its sampled actions score better than its likeliest ones after so few steps.
    with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
        for _ in range(tasks.EPISODES):
            episode = env.rollout(tasks.CYCLES, experiment.policy)
            rewards = [episode["next", group, "reward"] for group in experiment.group_map]
            returns.append(sum(float(reward.sum()) for reward in rewards))
    return {"return": statistics.fmean(returns), "seconds": seconds}


if __name__ == "__main__":
    name, steps, seed, start = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(train(name, int(steps), int(seed), float(start), folder)))
