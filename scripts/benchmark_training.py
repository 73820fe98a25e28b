"""What one way of training costs against another: rates in turns, and ratios to the first.

overlap     collecting while learning against taking turns: with CybORG on all cores, and with envs
            that wait 20 ms a step and learning that takes as long as collecting
stragglers  one worker in ten slowed 10 times, with a barrier at every step and with whole episodes
policies    env steps/s of several policies in one run against one policy
learner     episodes/s that a learner takes, by its networks, against one worker's on CybORG
cluster     workers on Ray against workers behind pipes, and whether workers that wait scale
sizes       bytes that an episode and a policy take on their way between processes

    python scripts/benchmark_training.py overlap
"""

from __future__ import annotations

import functools
import itertools
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workflow_rl  # isort: skip  # noqa: F401  # Pins kernels before anything loads NumPy.

import click
import cloudpickle

from workflow_rl.agents.policies.numpy_policy import Policy
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cluster.cluster import connected
from workflow_rl.collection.cluster_address import LOCAL, NONE
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Reply
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.environments.episode import SeedStream
from workflow_rl.measuring.benchmark import in_turns, machine_name, spread
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import Learner, make_agent
from workflow_rl.runs.loop import make_collector, make_pool, train_policy, train_together
from workflow_rl.runs.make_schedule import episode_specs
from workflow_rl.text_table import text_table

COMPILED = {"simulator": "compiled"}
POOLS = {"behind pipes": NONE, "on Ray": LOCAL}

Turn = Callable[[int], float]


def measure(title: str, turns: dict[str, Turn], rounds: int, unit: str = "episodes/s") -> None:
    """Print each variant's rate, and its ratio to the first variant's within each round."""
    rates = in_turns(turns, rounds, quiet=False)
    first = next(iter(rates.values()))
    rows = []
    for name, found in rates.items():
        ratios = [rate / base for rate, base in zip(found, first, strict=True)]
        rows.append([name, spread(found, "{:,.2f}".format), spread(ratios, "{:.2f}".format)])
    click.echo(f"{title} ({rounds} rounds; {machine_name()})")
    click.echo(text_table(["", unit, "ratio"], rows))


def trained(config: TrainConfig) -> dict[str, Any]:
    """Return the summary of a whole training run."""
    with tempfile.TemporaryDirectory() as folder:
        return train_policy(config, Path(folder), quiet=True)


def policy_of(config: TrainConfig) -> Policy:
    return make_agent(config).policy_parameters().actor()


def played(config: TrainConfig, episodes: int, envs: EnvBatch) -> list[Trajectory]:
    specs = episode_specs(config, range(episodes), SeedStream.BENCHMARK)
    return list(itertools.chain(*play_episodes(envs, policy_of(config), specs)))


def collecting(stack: ExitStack, config: TrainConfig, episodes: int, pool: Any = None) -> Turn:
    """Return a turn that collects episodes, with workers that are warm."""
    policy = policy_of(config)
    specs = episode_specs(config, range(episodes), SeedStream.BENCHMARK)
    collector = make_collector(stack.enter_context(pool or make_pool(config)), config)
    collector.collect(policy, specs[: config.n_envs])
    return lambda _: len(specs) / collector.collect(policy, specs).collect_seconds


def overlap(rounds: int, scale: float) -> None:
    busy = functools.partial(
        TrainConfig, "async", n_envs=max(2, round(100 * scale)), total_episodes=round(600 * scale)
    )
    waiting = functools.partial(
        TrainConfig, "async", n_envs=8, n_workers=8, env_args={"max_steps": 30},
        total_episodes=round(288 * scale), slow_worker_ms=20, slow_worker_share=1.0,
    )  # fmt: skip
    epochs = 6
    for _ in range(2):  # At first, what an update takes besides its epochs weighs too much.
        ppo: Any = {"epochs": epochs}
        summary = trained(waiting(settings=ppo, total_episodes=round(96 * scale)))
        epochs = max(1, round(epochs * summary["collect_seconds"] / summary["update_seconds"]))
    ppo = {"epochs": epochs}
    waiting = functools.partial(waiting, settings=ppo)

    def rate_of(make: Callable[..., TrainConfig], is_overlapping: bool, seed: int) -> float:
        summary = trained(make(async_rl=is_overlapping, seed=seed))
        return float(summary["episodes_per_second_run"])

    for title, make in {"cores busy": busy, f"envs that wait, {epochs} epochs": waiting}.items():
        turns: dict[str, Turn] = {
            "in turns": functools.partial(rate_of, make, False),
            "overlapping": functools.partial(rate_of, make, True),
        }
        measure(title, turns, rounds)


def stragglers(rounds: int, scale: float) -> None:
    ways: tuple[tuple[Any, str, int], ...] = (
        ("sync", "a barrier at every step", 20),
        ("async", "whole episodes", 100),
    )
    for mode, title, episodes in ways:
        env_args = {"max_steps": max(5, round(100 * scale))}
        config = TrainConfig(mode, n_envs=10, n_workers=10, env_args=env_args)
        environment = config.environment
        with ExitStack() as stack:
            turns = {}
            for name, slowest in {"ten workers alike": 0.002, "one slowed 10 times": 0.02}.items():
                delays = [slowest, *[0.002] * 9]  # Seconds.
                pool = LocalPool(
                    environment.make_envs, 10, preload=environment.preload, step_delays=delays
                )
                turns[name] = collecting(stack, config, episodes, pool)
            measure(title, turns, rounds)


def policies(rounds: int, scale: float) -> None:
    def steps_per_second(simulator: str, n_policies: int, episodes: int, number: int) -> float:
        make = functools.partial(
            TrainConfig, "async", 24, env_args={"simulator": simulator},
            total_episodes=episodes // n_policies,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            learners = [
                Learner(make(seed=10 * number + index), Path(folder) / str(index))
                for index in range(n_policies)
            ]
            summaries = train_together(learners, quiet=True)
        seconds = max(summary["wall_seconds"] for summary in summaries)
        return float(sum(summary["env_steps"] for summary in summaries) / seconds)

    for simulator, episodes in {"compiled": 1920, "cyborg": 480}.items():
        rate = functools.partial(steps_per_second, simulator)
        turns: dict[str, Turn] = {
            f"policies: {n}": functools.partial(rate, n, round(episodes * scale)) for n in (1, 4)
        }
        measure(simulator, turns, rounds, "env steps/s")


def learner(rounds: int, scale: float) -> None:
    def rate_of(episodes: int, call: Callable[[], object], _: int) -> float:
        start = time.perf_counter()
        call()
        return episodes / (time.perf_counter() - start)

    episodes, worker = max(2, round(100 * scale)), TrainConfig("async")
    play = functools.partial(played, worker, 20, worker.environment.make_envs(1))
    turns: dict[str, Turn] = {"one worker on CybORG": functools.partial(rate_of, 20, play)}
    for size in (64, 256, 512, 1024):
        for of in ("steps", "observations"):
            ppo: Any = {"hidden_sizes": (size, size), "minibatches_of": of}
            config = TrainConfig("async", env_args=COMPILED, settings=ppo)
            trajectories = played(config, episodes, config.environment.make_envs(episodes))
            update = functools.partial(make_agent(config).update, trajectories, 0.0)
            name = f"{size}-{size}, --minibatches-of {of}"
            turns[name] = functools.partial(rate_of, episodes, update)
    for turn in turns.values():
        turn(0)
    measure("episodes learned, and how many workers they keep busy", turns, rounds)


def cluster(rounds: int, scale: float) -> None:
    most = max(2, round(64 * scale))
    compared: tuple[tuple[Any, str, int, int], ...] = (
        ("async", "cyborg", 8, 96),
        ("async", "compiled", 100, 2000),
        ("sync", "cyborg", 8, 24),
        ("sync", "compiled", 100, 400),
    )
    address = POOLS["on Ray"]
    with nullcontext() if address == NONE else connected(address, most):
        for mode, simulator, n_envs, episodes in compared:
            make = functools.partial(
                TrainConfig, mode, n_envs, n_workers=2, env_args={"simulator": simulator}
            )
            with ExitStack() as stack:
                turns = {
                    name: collecting(stack, make(cluster=address), max(8, round(episodes * scale)))
                    for name, address in POOLS.items()
                }
                measure(f"{mode}, {simulator}", turns, rounds)
        waiting = functools.partial(
            TrainConfig, "async", env="Pendulum-v1", env_args={"max_episode_steps": 50},
            slow_worker_ms=20, slow_worker_share=1.0, cluster=POOLS["on Ray"],
        )  # fmt: skip

        episodes_each = max(1, round(4 * scale))

        def rate_of_a_worker(n_workers: int, _: int) -> float:
            with ExitStack() as stack:
                config = waiting(n_envs=n_workers, n_workers=n_workers)
                return collecting(stack, config, episodes_each * n_workers)(0) / n_workers

        numbers = dict.fromkeys((max(1, most // 16), max(1, most // 4), most))
        alone: dict[str, Turn] = {
            f"workers: {n}": functools.partial(rate_of_a_worker, n) for n in numbers
        }
        measure("envs that wait 20 ms a step", alone, rounds, "episodes/s of a worker")


def sizes(rounds: int, scale: float) -> None:
    rows = []
    for config in (
        TrainConfig("async", env_args=COMPILED),
        TrainConfig("async", env="CartPole-v1"),
    ):
        trajectories = played(config, 1, config.environment.make_envs(1))
        message = len(pickle.dumps(Reply(trajectories, 0.0), protocol=5))
        policy = len(cloudpickle.dumps(policy_of(config)))
        rows.append([config.env, trajectories[0].length, message, policy])
    click.echo(text_table(["", "steps", "bytes an episode", "bytes a policy"], rows))


MEASURED = {
    function.__name__: function
    for function in (overlap, stragglers, policies, learner, cluster, sizes)
}


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("what", type=click.Choice(list(MEASURED)))
@click.option("--rounds", type=click.IntRange(1), default=3, help="Turns of each variant.")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0,
              help="Share of the sizes that figures are made with, to try it.")  # fmt: skip
def main(what: str, rounds: int, scale: float) -> None:
    MEASURED[what](rounds, scale)


if __name__ == "__main__":
    main()
