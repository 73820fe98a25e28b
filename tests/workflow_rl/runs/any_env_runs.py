"""Small runs on Gymnasium environments, and what happens before their collections."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.runs import loop
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.config import TrainConfig

PPO = PPOConfig(
    hidden_sizes=(8,),
    minibatch_size=50,
    epochs=1,
    reward_scale=1.0,
    normalise_obs=True,
    normalise_returns=True,
)
ENVS: dict[str, dict[str, Any]] = {
    "CartPole": {"env": "CartPole-v1"},
    "Pendulum": {"env": "Pendulum-v1", "env_args": {"max_episode_steps": 25}},
    "Puzzle": {"env": "tests.any_envs:PuzzleEnv"},
}
KINDS: dict[str, dict[str, Any]] = {
    "episodes": {"steps_per_update": 60},
    "unrolls": {"num_steps_per_env": 6, "steps_per_update": 60},
    "lagged": {"steps_per_update": 60, "async_rl": True},
    "lagged unrolls": {"num_steps_per_env": 6, "steps_per_update": 60, "async_rl": True},
}


def config_of(
    env: str = "Puzzle", kind: str = "episodes", mode: str = "async", **changes: Any
) -> TrainConfig:
    """A run of 5 envs and some 5 updates."""
    settings: dict[str, Any] = {"n_envs": 5, "n_workers": 2, "total_steps": 300, "seed": 3}
    settings |= {
        **ENVS.get(env, {"env": env}),
        **KINDS[kind],
        "settings": PPO,
        "device": "cpu",
        **changes,
    }
    return TrainConfig(mode=mode, **settings)  # type: ignore[arg-type]


Before = Callable[[Any, int], None]
"""Is called with the pool and how many collections were before this one."""


def run(path: Path, config: TrainConfig, before: Before | None = None) -> dict[str, Any]:
    """Start the run in `path`, or go on with it."""

    def collector_of(pool: Any, config: TrainConfig) -> Any:
        collector: Any = loop.make_collector(pool, config)
        if before is not None:
            count = itertools.count()
            for name in ("collect", "unroll"):
                setattr(collector, name, interfered(pool, getattr(collector, name), count))
        return collector

    def interfered(pool: Any, play: Callable[..., Any], count: Iterator[int]) -> Any:
        def with_interference(*arguments: Any) -> Any:
            assert before is not None
            before(pool, next(count))
            return play(*arguments)

        return with_interference

    checkpoint = path / "checkpoint.safetensors"
    resumed = load_checkpoint(checkpoint) if checkpoint.exists() else None
    return loop.train_policy(config, path, resumed, quiet=True, collector_of=collector_of)


def stop_at(collection: int) -> Before:
    """Has the run stop at its collection of this number."""

    def before(pool: Any, count: int) -> None:
        if count == collection:
            pool.stop_signal = signal.SIGINT

    return before
