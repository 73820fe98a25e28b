"""What a learner takes: episodes/s that it can learn from, by the size of its networks.

Learns from CAGE-2 episodes of the compiled simulator, collected once, again and again, and prints
how many workers keep it busy on CybORG, by the episodes/s of a single one.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from pathlib import Path

import click
from prettytable import PrettyTable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import workflow_rl.portable  # isort: skip  # noqa: F401  # Before anything loads NumPy.

from agents.policies.numpy_policy import NumpyPolicy
from agents.trajectory import Trajectory
from workflow_rl.collection.play import play_episodes
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.environments.episode import SeedStream
from workflow_rl.runs.batches import episode_specs
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import make_agent


def played(config: TrainConfig, episodes: int, envs: EnvBatch) -> list[Trajectory]:
    policy = NumpyPolicy(make_agent(config).policy_parameters())
    specs = episode_specs(config, range(episodes), SeedStream.BENCHMARK)
    return list(itertools.chain(*play_episodes(envs, policy, specs)))


def worker_rate(episodes: int) -> float:
    """Episodes/s of one worker on CybORG, with the default networks."""
    config = TrainConfig("async")
    envs = config.environment.make_envs(1)
    played(config, 2, envs)
    start = time.perf_counter()
    played(config, episodes, envs)
    return episodes / (time.perf_counter() - start)


def learner_rate(sizes: tuple[int, ...], minibatches_of: str, episodes: int, rounds: int) -> float:
    """Episodes/s that a learner takes: the median over the rounds."""
    config = TrainConfig(
        "async",
        env_args={"simulator": "compiled"},
        ppo={"hidden_sizes": sizes, "minibatches_of": minibatches_of},
    )
    trajectories = played(config, episodes, config.environment.make_envs(episodes))
    agent = make_agent(config)
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        agent.update(trajectories, 0.0)
        seconds.append(time.perf_counter() - start)
    return episodes / statistics.median(seconds[1:])


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--episodes", type=click.IntRange(1), default=100, help="Of a rollout.")
@click.option("--rounds", type=click.IntRange(1), default=5, help="Updates of each size.")
def main(episodes: int, rounds: int) -> None:
    one_worker = worker_rate(20)
    table = PrettyTable(["networks", "minibatches of", "episodes/s", "workers on CybORG"])
    for sizes in ((64, 64), (256, 256), (512, 512), (1024, 1024)):
        for minibatches_of in ("steps", "observations"):
            rate = learner_rate(sizes, minibatches_of, episodes, rounds)
            name = "-".join(map(str, sizes))
            table.add_row([name, minibatches_of, f"{rate:.0f}", f"{rate / one_worker:.0f}"])
    click.echo(f"one worker on CybORG: {one_worker:.1f} episodes/s")
    click.echo(table)


if __name__ == "__main__":
    main()
