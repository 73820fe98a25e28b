"""Defaults of whole runs on CAGE-4, as fields of a TrainConfig."""

from __future__ import annotations

from typing import Any

QUICK: dict[str, Any] = {
    "env_args": {
        # Events show for one step, and agents are often busy: a policy without a memory
        # needs what they said. Of all actions, Remove and Restore do nearly all the good.
        # The team's reward hides what an agent's own actions bring.
        "observation": "belief",
        "actions": "repair",
        "own_rewards": True,
    },
    "n_envs": 50,
    "episodes_per_update": 50,
    "total_episodes": 2500,
    "settings": {
        "critic": "central",
        "hidden_sizes": (64, 64),
        "minibatch_size": 4000,
        "epochs": 4,
        "learning_rate": 3e-3,
        "discount": 0.995,
        "gae_lambda": 0.92,
        "entropy_coef": 0.003,
        "entropy_coef_final": 0.0,
        "reward_scale": 0.1,
    },
}
