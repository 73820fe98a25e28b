"""What overlap and complete episodes bring: ratios of throughput, measured in turns.

1. Cores busy: CybORG with as many workers as cores. Overlapped training against taking turns.
2. Envs that wait: steps of 20 ms, and learning that takes as long as collecting. The same ratio.
3. Stragglers: one worker in ten slowed 10 times. What a barrier at every step loses by it, against
   what complete episodes lose.
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agents.policies.numpy_policy import NumpyPolicy
from agents.ppo.config import PPOConfig
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.environments.episode import SeedStream
from workflow_rl.runs.batches import episode_specs
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.loop import train

STEP_SECONDS = 0.002


def rate_of(config: TrainConfig) -> float:
    """Episodes/s of a whole training run, its workers' start left out."""
    with tempfile.TemporaryDirectory() as folder:
        summary = train(config, Path(folder), quiet=True)
    return float(summary["episodes_per_second_run"])


def ratio_of_turns(rounds: int, one: Callable[[], float], other: Callable[[], float]) -> float:
    """Median over the rounds of one / other, both measured in each."""
    pairs = [(one(), other()) for _ in range(rounds)]
    for pair in pairs:
        click.echo(f"   {pair[0]:8.2f} against {pair[1]:8.2f}: {pair[0] / pair[1]:.2f}")
    return statistics.median(a / b for a, b in pairs)


def overlap_ratio(rounds: int, config: Callable[..., TrainConfig]) -> float:
    """Overlapped training, lag 1, against taking turns."""
    return ratio_of_turns(
        rounds,
        lambda: rate_of(config(async_rl=True)),
        lambda: rate_of(config(async_rl=False)),
    )


def epochs_as_long_as_collecting(config: Callable[..., TrainConfig]) -> int:
    """PPO epochs that take about as long as collecting a rollout does."""
    epochs = PPOConfig().epochs
    for _ in range(2):  # The first time, what an update takes besides its epochs weighs too much.
        with tempfile.TemporaryDirectory() as folder:
            settings = config(ppo=PPOConfig(epochs=epochs), total_episodes=96)
            summary = train(settings, Path(folder), quiet=True)
        ratio = summary["collect_seconds"] / summary["update_seconds"]
        epochs = max(1, round(epochs * ratio))
    click.echo(f"   {epochs} epochs an update; with those before, {ratio:.2f} x as long collecting")
    return epochs


def collected_rate(mode: str, delays: list[float], episodes: int, max_steps: int) -> float:
    """Episodes/s of collecting alone, with ten workers of one env each."""
    config = TrainConfig("async", n_envs=10, n_workers=10, env_args={"max_steps": max_steps})
    policy = NumpyPolicy(make_agent(config).policy_parameters())
    specs = episode_specs(config, range(episodes), SeedStream.BENCHMARK)
    environment = config.environment
    with LocalPool(
        environment.make_envs, 10, preload=environment.preload, step_delays=delays
    ) as pool:
        collector = SyncCollector(pool, 10) if mode == "sync" else AsyncCollector(pool)
        collector.collect(policy, specs[:10])
        return episodes / collector.collect(policy, specs).collect_seconds


def loss_by_straggler(mode: str, episodes: int, max_steps: int) -> float:
    """Share of the throughput that one slow worker in ten costs."""
    alike = collected_rate(mode, [STEP_SECONDS] * 10, episodes, max_steps)
    one_slow = collected_rate(mode, [10 * STEP_SECONDS, *[STEP_SECONDS] * 9], episodes, max_steps)
    click.echo(f"   {mode:5} {alike:7.2f} episodes/s, with a slow worker {one_slow:7.2f}")
    return 1 - one_slow / alike


@click.command(context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(1), default=3, help="Turns of each.")
@click.option("--n-envs", type=click.IntRange(1), default=100, help="Of the first comparison.")
@click.option("--episodes", type=click.IntRange(10), default=600, help="Of a run in it.")
@click.option("--max-steps", type=click.IntRange(1), default=100, help="Steps of an episode.")
def main(rounds: int, n_envs: int, episodes: int, max_steps: int) -> None:
    """Measure what collecting while learning, and complete episodes, bring."""
    click.echo("cores busy: overlapped against taking turns, episodes/s")
    busy = functools.partial(
        TrainConfig,
        "async",
        n_envs=n_envs,
        total_episodes=episodes,
        env_args={"max_steps": max_steps},
    )
    click.echo(f"-> {overlap_ratio(rounds, busy):.2f}x")

    click.echo("envs that wait 20 ms a step, learning as long as collecting, episodes/s")
    waiting = functools.partial(
        TrainConfig, "async", n_envs=8, n_workers=8,
        env_args={"max_steps": math.ceil(0.3 * max_steps)},
        total_episodes=288, slow_worker_ms=20, slow_worker_share=1.0,
    )  # fmt: skip
    epochs = epochs_as_long_as_collecting(waiting)
    waiting = functools.partial(waiting, ppo=PPOConfig(epochs=epochs))
    click.echo(f"-> {overlap_ratio(rounds, waiting):.2f}x")

    click.echo("one worker in ten slowed 10 times")
    losses = [
        (loss_by_straggler("sync", 20, max_steps), loss_by_straggler("async", 100, max_steps))
        for _ in range(rounds)
    ]
    barrier, complete = (statistics.median(loss) for loss in zip(*losses, strict=True))
    click.echo(f"-> the barrier loses {barrier:.0%}, complete episodes {complete:.0%}")


if __name__ == "__main__":
    main()
