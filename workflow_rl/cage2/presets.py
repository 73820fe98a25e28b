"""Defaults of whole runs on CAGE-2, as fields of a TrainConfig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workflow_rl.cage2.scenario2 import ENV_ID, SCENARIO1B

# The champion's run, with a smaller network and a fifth of its episodes.
QUICK: dict[str, Any] = {
    "env_args": {
        # The belief is all that Blue can know; the action set leaves out actions that do
        # nothing.
        "simulator": "compiled",
        "observation": "belief",
        "actions": "by-host",
        # One agent plays against all red agents, and is never told which one attacks.
        "red_agent": "attackers",
        # Decoys can keep Red off no host in User but User2, and only if they are there
        # before Red scans the host.
        "opening": ("DecoyFemitter User2", "DecoyTomcat User2", "DecoyApache User2"),
    },
    "n_envs": 200,
    "episodes_per_update": 200,
    "total_episodes": 16_000,
    "async_rl": True,
    "settings": {
        "hidden_sizes": (64, 64),
        "minibatches_of": "observations",
        "minibatch_size": 5000,
        "epochs": 4,
        "learning_rate": 2e-3,
        # What matters shows within some 30 steps; a lambda of 0.95 gives up hosts that pay
        # off later.
        "discount": 0.97,
        "gae_lambda": 0.97,
        "entropy_coef": 0.01,
        "entropy_coef_final": 0.0,
    },
}

CHAMPION: dict[str, Any] = {
    "env": ENV_ID,
    **{name: QUICK[name] for name in ("env_args", "n_envs", "episodes_per_update")},
    "total_episodes": 80_000,
    "settings": {**QUICK["settings"], "hidden_sizes": (128, 128)},
    "learner_threads": 2,
    # Of 400 updates: the candidates are checkpoints of the last half.
    "keep_every": 6,
}
"""The run of `train-champion`, as the trainer takes it in Python."""
N_CANDIDATES = 30
PLAYS_WITH = {"actions": "by-host-timed"}
"""The action set of play. Training leaves the clock out, which the agent does not see."""

# For CAGE Challenge 1. Where a decoy has let Red into a sandbox, it pays to wait. Blue finds this
# out late, and needs more entropy until then.
CAGE1: dict[str, Any] = {
    "env_args": {
        "simulator": "compiled",
        "scenario": SCENARIO1B,
        "observation": "belief",
        "actions": "by-host",
        "red_agent": "attackers",
    },
    "n_envs": 100,
    "episodes_per_update": 100,
    "total_episodes": 40_000,
    "async_rl": True,
    "settings": {
        "hidden_sizes": (64, 64),
        "minibatch_size": 2500,
        "epochs": 4,
        "learning_rate": 1.5e-3,
        "discount": 0.97,
        "gae_lambda": 0.97,
        "entropy_coef": 0.03,
        "entropy_coef_final": 0.0,
    },
}

# One generation of Blue in a duel, which goes on from the one before: see docs/how-to/duel.md.
ROBUST: dict[str, Any] = {
    **QUICK,
    # An attacker that learns does what no hypothesis of the belief explains.
    "env_args": {**QUICK["env_args"], "observation": "evidence"},
    "total_episodes": 5000,
    "settings": {
        **QUICK["settings"],
        "hidden_sizes": (128, 128),
        "learning_rate": 1e-3,
    },
}

# One defender for all networks: what it sees and chooses holds in each of them.
ANY_NETWORK: dict[str, Any] = {
    **QUICK,
    "n_envs": 50,
    "episodes_per_update": 50,
    "total_episodes": 20_000,
    "env_args": {
        "simulator": "compiled",
        "scenario": str(Path(__file__).parent / "agent" / "released" / "any-network.yaml"),
        "observation": "history",
        "actions": "by-host",
        "red_agent": "attackers",
    },
    "settings": {
        **QUICK["settings"],
        "network": "entities",
        # Attention costs four times as much and is no better here.
        "network_args": {"heads": 0},
        "hidden_sizes": (48, 48),
        "minibatches_of": "steps",
        "minibatch_size": 1250,
    },
}
