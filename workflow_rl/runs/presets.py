"""Presets: known systems, and recipes of this package and of guests, as fields of a TrainConfig.

A preset of `first-come` batches without steps_per_update has batches of one worker's unroll.
"""

from typing import Any

from workflow_rl.plug_ins import plug_ins

MODEL: dict[str, Any] = {
    "gradient_steps": 0.66,
    "warm_up_steps": 1200,
    "imagined_share": 0.75,
    "imagined_rollouts": 4,
    "imagined_updates": 20,
    "rollout_length_final": 1,
    # The models are small and rarely fitted, because a fit passes over all steps so far.
    "model_every": 1000,
    "model_members": 3,
    "model_elites": 2,
    "model_hidden_sizes": (64, 64),
    "model_patience": 1,
}
"""Settings of both asynchronous model-based presets."""

PRESETS: dict[str, dict[str, Any]] = {
    # Collecting and learning take turns.
    "sample-factory-sync": {"num_steps_per_env": 32},
    # Collecting goes on while up to two batches wait, then pauses. Stale samples are masked.
    "sample-factory-async": {
        "num_steps_per_env": 32,
        "steps_per_update": 2400,
        "async_rl": True,
        "batching": "first-come",
        "num_batches_to_accumulate": 2,
        "settings": {"max_policy_lag": 1000},
    },
    # Each actor has one batched env. The learner learns from one actor's unroll at a time.
    "alf": {
        "num_steps_per_env": 100,
        "async_rl": True,
        "batching": "first-come",
    },
    # Every env gives the same number of steps, without a reset. The queue is small.
    "rsl-batch": {
        "num_steps_per_env": 24,
        "async_rl": True,
        "batching": "whole-batches",
        "num_batches_to_accumulate": 10,
    },
    # Small pieces go into a bounded queue that drops the oldest. The learner takes all waiting
    # pieces. Ten pieces are about a rollout. With a longer queue, batches would grow endlessly: the
    # longer the learner needs for a batch, the larger is the next batch.
    "continuous": {
        "num_steps_per_env": 24,
        "async_rl": True,
        "batching": "first-come",
        "num_batches_to_accumulate": 10,
        "when_full": "drop",
        "take_all": True,
    },
    # Asynchronous model-based training has two forms. In the first, small pieces go into a queue,
    # and the learner takes all waiting pieces. The second follows RSL-RL: equally many steps of all
    # envs. The learner is slower than the workers. So both queues are short, and collecting waits.
    "mbpo-continuous": {
        "algorithm": "mbpo",
        "num_steps_per_env": 24,
        "async_rl": True,
        "batching": "first-come",
        "num_batches_to_accumulate": 2,
        "take_all": True,
        "settings": MODEL,
    },
    "mbpo-batch": {
        "algorithm": "mbpo",
        "num_steps_per_env": 24,
        "async_rl": True,
        "batching": "whole-batches",
        "settings": MODEL,
    },
}
"""Known systems, for any environment."""

RECIPES: dict[str, dict[str, Any]] = {
    # Networks and minibatches are small, because on a CPU gradient steps take most of the time.
    "sac-control": {
        "algorithm": "sac",
        "n_envs": 1,
        "num_steps_per_env": 50,
        "settings": {
            "hidden_sizes": (128, 128),
            "batch_size": 128,
            "gradient_steps": 4.0,
            "policy_every": 4,
            "learning_rate": 5e-4,
            "target_rate": 0.005,
        },
    }
}
"""Recipes that train well on any environment of their kind."""


KNOWN = tuple(dict.fromkeys([*PRESETS, *RECIPES, *plug_ins("presets")]))
"""The names of all presets, guests' presets included."""
