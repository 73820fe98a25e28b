"""Defaults of whole runs on CAGE-4, as fields of a TrainConfig."""

from typing import Any

from workflow_rl.cage4.scenario.scenario4 import SCENARIOS

CHAMPION: dict[str, Any] = {
    "env_args": {
        "observation": "belief",
        # An agent without a decision analyses hosts, which finds nearly all of red's root sessions.
        "actions": "suspects",
        # The team's reward does not show the effect of one agent's actions.
        "own_rewards": True,
    },
    "n_envs": 100,
    "episodes_per_update": 200,
    "total_episodes": 8000,
    "async_rl": True,
    "keep_every": 4,
    "teacher": "rules",
    "teacher_episodes": 200,
    "teacher_epochs": 2,
    "settings": {
        "network": "entities",
        "network_args": {"heads": 0},
        "hidden_sizes": (48,),
        "critic": "central",
        "minibatch_size": 2000,
        "epochs": 3,
        "learning_rate": 1.5e-3,
        "learning_rate_final": 5e-5,
        "discount": 0.995,
        "gae_lambda": 0.92,
        "entropy_coef": 0.006,
        "entropy_coef_final": 0.0,
        "target_kl": 0.03,
        "reward_scale": 0.1,
    },
}
N_CANDIDATES = 12
"""How many of the last agents are candidates for the best agent of the champion's run."""
QUICK: dict[str, Any] = {
    **CHAMPION,
    "total_episodes": 1000,
    "episodes_per_update": 100,
    "teacher_episodes": 100,
}
ROBUST: dict[str, Any] = {
    **CHAMPION,
    "env_args": {**CHAMPION["env_args"], "scenarios": tuple(SCENARIOS)},
    "total_episodes": 6000,
    "teacher": "robust-rules",
}
