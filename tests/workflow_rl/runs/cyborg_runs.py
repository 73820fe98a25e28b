"""Small runs on CybORG, and what happens before their collections."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import torch

from workflow_rl.agents.ppo.agent import PPOConfig
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.runs import loop
from workflow_rl.runs.checkpoint import Checkpoint, load_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.loop import make_collector, train_policy

PPO = PPOConfig(hidden_sizes=(16,), minibatch_size=40, epochs=2)


def config_of(mode: str = "async", simulator: str = "cyborg", **changes: Any) -> TrainConfig:
    defaults: dict[str, Any] = {
        **{"n_envs": 4, "total_episodes": 24, "episodes_per_update": 6, "seed": 3},
        "env_args": {"red_agent": "mixed", "max_steps": 8, "simulator": simulator},
    }
    return TrainConfig(mode=mode, settings=PPO, **{**defaults, **changes})  # type: ignore[arg-type]


def run(path: Path, config: TrainConfig, resumed: Checkpoint | None = None) -> dict[str, Any]:
    return train_policy(config, path, resumed, quiet=True)


def interfered_run(path: Path, config: TrainConfig, before: Any) -> dict[str, Any]:
    """A run before whose collections something happens, stopped by signals as on the command
    line. before: called with the pool, the policy and the specs."""

    def collector_of(pool: LocalPool, config: TrainConfig) -> Any:
        return Interfered(make_collector(pool, config), functools.partial(before, pool))

    return train_policy(
        config, path, quiet=True, watch=loop.stopped_by_signals, collector_of=collector_of
    )


def weights(path: Path) -> dict[str, torch.Tensor]:
    return dict(load_checkpoint(path / "checkpoint.safetensors").agent["network"])


def same_weights(one: Path, other: Path) -> bool:
    left, right = weights(one), weights(other)
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


class Interfered:
    """A collector before whose collections something happens."""

    def __init__(self, collector, before) -> None:
        self.collector, self.before = collector, before
        self.start_unrolls = collector.start_unrolls

    def collect(self, policy, specs, *following):
        self.before(policy, specs)
        return self.collector.collect(policy, specs, *following)

    def unroll(self, policy, times=1):
        self.before(policy, None)
        return self.collector.unroll(policy, times)


def wait_for_signal(pool) -> None:
    """Collections run in a thread; Python calls signal handlers in the main one."""
    deadline = time.monotonic() + 10
    while pool.stop_signal is None and time.monotonic() < deadline:
        time.sleep(0.01)
