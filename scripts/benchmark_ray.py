"""What Ray costs, whether it scales, and what it carries: workers on a cluster started here.

1. Episodes/s of the same workers behind pipes and on Ray, in turns: CybORG, and the compiled
   simulator, asynchronous and with a barrier at every step.
2. Episodes/s of workers whose env waits 20 ms a step, by their number, against that of the fewest.
3. Bytes that an episode and a policy take on their way between processes.
"""

from __future__ import annotations

import pickle
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import cloudpickle

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import workflow_rl.portable  # isort: skip  # noqa: F401  # Before anything loads NumPy.

import gymnasium
import numpy as np

from agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.collection.cluster import LOCAL, NONE, Cluster
from workflow_rl.collection.parallel_env_async import AsyncParallelEnv
from workflow_rl.collection.play import play_episode
from workflow_rl.collection.ray_pool import RayWorkerPool
from workflow_rl.collection.worker import Reply
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import SeedStream
from workflow_rl.runs.batches import episode_specs
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.loop import make_collector, make_pool

STEP_SECONDS = 0.02
EPISODE_STEPS = 50


def policy_of(config: TrainConfig) -> NumpyPolicy:
    return NumpyPolicy(make_agent(config).policy_parameters())


class IdleEnv(gymnasium.Env[Any, Any]):
    """Does nothing but end after so many steps."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 1, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._obs = np.zeros(4, np.float32)
        self._steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._steps = 0
        return self._obs, {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        return self._obs, 0.0, False, self._steps == EPISODE_STEPS, {}


def cost(rounds: int, mode: Any, simulator: str, n_envs: int, episodes: int) -> None:
    """Prints pipes' and Ray's episodes/s of both pools, which live side by side."""
    configs = [
        TrainConfig(
            mode,
            n_envs=n_envs,
            n_workers=2,
            cluster=cluster,
            env_args={"simulator": simulator},
            episodes_per_update=episodes,
        )
        for cluster in (NONE, LOCAL)
    ]
    policy = policy_of(configs[0])
    specs = episode_specs(configs[0], range(episodes), SeedStream.BENCHMARK)
    with make_pool(configs[0]) as pipes, make_pool(configs[1]) as on_ray:
        collectors = [make_collector(pipes, configs[0]), make_collector(on_ray, configs[1])]
        for collector in collectors:
            collector.collect(policy, specs)
        pairs = []
        for _ in range(rounds):
            rates = [episodes / each.collect(policy, specs).collect_seconds for each in collectors]
            pairs.append(rates)
            click.echo(f"   {rates[0]:9.1f} behind pipes, {rates[1]:9.1f} on Ray")
    ratio = statistics.median(on_ray / pipes for pipes, on_ray in pairs)
    click.echo(f"-> {mode}, {simulator}: {ratio:.2f} of the pipes' episodes/s")


def scale(rounds: int, numbers: Sequence[int]) -> None:
    """Prints episodes/s by the number of workers whose envs wait."""
    config = TrainConfig("async", env="CartPole-v1")
    policy = policy_of(config)
    fewest = 0.0
    for n_workers in numbers:
        specs = episode_specs(config, range(4 * n_workers), SeedStream.BENCHMARK)
        delays = [STEP_SECONDS] * n_workers
        make_envs = partial(SerialEnvs, IdleEnv)
        with RayWorkerPool(make_envs, n_workers, step_delays=delays) as pool:
            collector = AsyncParallelEnv(pool)
            collector.collect(policy, specs[:n_workers])
            rate = statistics.median(
                len(specs) / collector.collect(policy, specs).collect_seconds for _ in range(rounds)
            )
        fewest = fewest or rate / n_workers
        share = rate / n_workers / fewest
        click.echo(f"   {n_workers:3} workers: {rate:7.2f} episodes/s, {share:.2f} of linear")


def sizes() -> None:
    """Prints bytes."""
    for name, config in {
        "CAGE-2, 100 steps": TrainConfig("async", env_args={"simulator": "compiled"}),
        "CartPole-v1": TrainConfig("async", env="CartPole-v1"),
    }.items():
        policy = policy_of(config)
        (spec,) = episode_specs(config, range(1), SeedStream.BENCHMARK)
        trajectory = play_episode(config.environment.make_envs(1), policy, spec)
        message = len(pickle.dumps(Reply([trajectory], 0.0), protocol=5))
        click.echo(
            f"   {name}: {message} bytes an episode of {trajectory.length} steps, "
            f"{len(cloudpickle.dumps(policy))} a policy {dict(config.settings)['hidden_sizes']}"
        )


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(1), default=5, help="Turns of each.")
@click.option("--workers", default="4,16,64", help="Numbers of workers that wait.")
@click.option("--only", type=click.Choice(["cost", "scale", "sizes"]), help="One of the three.")
def main(rounds: int, workers: str, only: str | None) -> None:
    numbers = [int(number) for number in workers.split(",")]
    if only in (None, "sizes"):
        click.echo("bytes on the way")
        sizes()
    if only in (None, "cost"):
        cluster = Cluster(LOCAL, 2)
        click.echo("pipes against Ray, 2 workers, episodes/s")
        cost(rounds, "async", "cyborg", 8, 96)
        cost(rounds, "async", "compiled", 100, 2000)
        cost(rounds, "sync", "cyborg", 8, 24)
        cost(rounds, "sync", "compiled", 100, 400)
        cluster.leave()
    if only in (None, "scale"):
        click.echo(f"envs that wait {STEP_SECONDS * 1000:g} ms a step, {EPISODE_STEPS} an episode")
        cluster = Cluster(LOCAL, max(numbers))
        scale(max(1, rounds // 2), numbers)
        cluster.leave()


if __name__ == "__main__":
    main()
