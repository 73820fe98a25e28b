"""The presets of CAGE-2 and the champion's recipe, as fields of a TrainConfig."""

from pathlib import Path
from typing import Any

from workflow_rl.cage2.scenario2 import ENV_ID, SCENARIO1B

# The champion's run, with a smaller network and a fifth of its episodes.
QUICK: dict[str, Any] = {
    "env_args": {
        # The belief holds all that Blue can conclude. The action set leaves out useless actions.
        "simulator": "compiled",
        "observation": "belief",
        "actions": "by-host",
        # One blue agent plays against all red agents. It never sees which red agent attacks.
        "red_agent": "attackers",
        # User2 is the only host of the subnet User that decoys can keep from Red. The decoys have
        # to be in place before Red scans User2.
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
        # An action has its effects within about 30 steps. With a lambda of 0.95, the agent would
        # give up hosts whose defence pays late.
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
    # The run has 400 updates. The candidates are checkpoints of the second half.
    "keep_every": 6,
}
"""The run of `train-champion`, as fields of a TrainConfig."""
N_CANDIDATES = 30
PLAYS_WITH = {"actions": "by-host-timed"}
"""The action set with which the champion plays. Its actions depend on the step, which the agent
does not observe. So training uses another action set."""

# The preset of CAGE Challenge 1. Once a decoy has let Red into a sandbox, waiting is the best that
# Blue can do. Blue learns this late, and needs more entropy until then.
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

# The run of one generation of Blue in a duel, which starts from the generation before: see
# docs/how-to/duel.md.
ROBUST: dict[str, Any] = {
    **QUICK,
    # A learned attacker's actions may fit none of the red agents that the belief considers.
    "env_args": {**QUICK["env_args"], "observation": "evidence"},
    "total_episodes": 5000,
    "settings": {**QUICK["settings"], "hidden_sizes": (128, 128), "learning_rate": 1e-3},
}

# The preset of a defender for all networks. Its observations and actions exist in every network.
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
        # With attention, training takes four times as long, and the policy is no better here.
        "network_args": {"heads": 0},
        "hidden_sizes": (48, 48),
        "minibatches_of": "steps",
        "minibatch_size": 1250,
    },
}
