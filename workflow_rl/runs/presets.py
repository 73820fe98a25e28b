"""Known systems as settings of ours, which the trainers' --preset stands for.

Where a preset of `first-come` batches names no steps_per_update, a batch is one worker's unroll.
"""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    # Exactly a dataset is collected, then learned from.
    "sample-factory-sync": {"num_steps_per_env": 32},
    # Collecting never stops; two batches may wait, then it pauses. Stale samples are masked.
    "sample-factory-async": {
        "num_steps_per_env": 32,
        "steps_per_update": 2400,
        "async_rl": True,
        "batching": "first-come",
        "num_batches_to_accumulate": 2,
        "max_policy_lag": 1000,
    },
    # Actors with one batched env each; the learner learns from one actor's unroll at a time.
    "alf": {
        "num_steps_per_env": 100,
        "async_rl": True,
        "batching": "first-come",
    },
    # The same number of steps from every env, without a reset, and a small queue.
    "rsl-batch": {
        "num_steps_per_env": 24,
        "async_rl": True,
        "batching": "whole-batches",
        "num_batches_to_accumulate": 10,
    },
    # Small pieces into a bounded queue that drops the oldest; the learner takes whatever is there.
    # Ten of ours are about a rollout. With a longer queue batches would grow without end: while the
    # learner learns from one, a larger one gathers.
    "continuous": {
        "num_steps_per_env": 24,
        "async_rl": True,
        "batching": "first-come",
        "num_batches_to_accumulate": 10,
        "when_full": "drop",
        "take_all": True,
    },
    # The two forms of asynchronous model-based training. Small pieces into a large queue, and
    # nothing waits; and, after RSL-RL, equal steps of 64 envs and a short queue.
    "mbpo-continuous": {
        "algorithm": "mbpo",
        "num_steps_per_env": 24,
        "async_rl": True,
        "batching": "first-come",
        "num_batches_to_accumulate": 1000,
        "when_full": "drop",
        "take_all": True,
    },
    "mbpo-batch": {
        "algorithm": "mbpo",
        "n_envs": 64,
        "num_steps_per_env": 24,
        "async_rl": True,
        "batching": "whole-batches",
        "num_batches_to_accumulate": 10,
    },
}
