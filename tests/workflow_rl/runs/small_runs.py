"""Small runs on environments of every kind."""

from typing import Any

from tests.own_networks import Remembering
from workflow_rl.agents.ppo.config import PPOConfig
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
NETWORKS = {
    name: {
        "env": "tests.any_envs:MaskedPuzzleEnv",
        "settings": PPO.changed(network=name, hidden_sizes=(8, 8)),
    }
    for name in ("mlp", "gru", "lstm", "frame-stack", "entities")
}
OWN = {"minibatch_size": 50, "epochs": 1, "network_args": {"slope": 0.5}}
CNN = PPO.changed(network="cnn", normalise_obs=False)
OTHERS: dict[str, dict[str, Any]] = {
    "own": {
        "env": "tests.any_envs:MaskedPuzzleEnv",
        "total_steps": 180,
        "network": Remembering,
        "settings": OWN,
    },
    "own of a team": {
        "env": "tests.tiny_teams:ShiftEnv",
        "total_steps": 180,
        "network": Remembering,
        "settings": {**OWN, "critic": "central"},
    },
    "central critic": {
        "env": "tests.tiny_teams:ShiftEnv",
        "total_steps": 180,
        "settings": PPO.changed(critic="central"),
    },
    "V-trace of a team": {
        "env": "tests.tiny_teams:ShiftEnv",
        "total_steps": 180,
        "settings": PPO.changed(critic="central", correction="vtrace", network="gru"),
    },
    "team on entities": {
        "env": "tests.tiny_teams:Doors",
        "total_steps": 180,
        "settings": PPO.changed(network="entities", network_args={"heads": 0}, critic="central"),
    },
    "told an order": {"env": "examples.ordered_visits:make", "total_steps": 900},
    **{
        f"channels {shown}": {
            "env": "tests.any_envs:PictureEnv",
            "env_args": {"shown": shown},
            "total_steps": 240,
            "settings": CNN,
        }
        for shown in ("last", "beside")
    },
    "budgets": {
        "env": "tests.costly_envs:Hasty",
        "settings": PPO.changed(budgets={"wear": 1.0, "cost:p90": 4.0}),
    },
    "budgets of a team": {
        "env": "tests.costly_envs:Pair",
        "total_steps": 180,
        "settings": PPO.changed(
            budgets={"cost:p75": 1.0}, policy_of="early=first,late=second", network="gru"
        ),
    },
    "CAGE-2 within a budget": {
        # `run` replaces CAGE-2's envs unless the arguments name a simulator.
        "env_args": {
            "red_agent": "mixed",
            "max_steps": 8,
            "simulator": "compiled",
            "measures": True,
        },
        "total_steps": 240,
        "settings": PPO.changed(budgets={"root_hosts": 1.0}),
    },
    "CAGE-4 within a budget": {
        "env": "workflow_rl/CAGE4-v0",
        "env_args": {"max_steps": 12, "measures": True},
        "total_steps": 240,
        "settings": PPO.changed(budgets={"downtime:p90": 6.0}),
    },
    "other reward": {
        "env": "tests.costly_envs:Hasty",
        "total_steps": 180,
        "reward_from": {"wear": -1.5, "reward": 0.5},
    },
    "Counting": {
        "env_args": {"red_agent": "mixed", "observation": "table", "actions": "all"},
        "total_steps": 360,
    },
    "curriculum": {
        "env": "tests.tiny_envs:CountingEnv",
        "curriculum": True,
        "total_steps": None,
        "total_episodes": 40,
        "eval_every": 4,
        "eval_episodes": 2,
    },
    "CAGE-2": {
        "env_args": {"red_agent": "mixed", "max_steps": 8, "simulator": "cyborg"},
        "n_envs": 4,
        "total_steps": None,
        "total_episodes": 24,
        "steps_per_update": None,
        "episodes_per_update": 6,
        "settings": PPOConfig(hidden_sizes=(16,), minibatch_size=40, epochs=2),
    },
}
COMPILED = {**OTHERS["CAGE-2"]["env_args"], "simulator": "compiled"}
"""What CAGE-2's envs are made with on the compiled simulator."""
KINDS: dict[str, dict[str, Any]] = {
    "episodes": {"steps_per_update": 60},
    "unrolls": {"num_steps_per_env": 6, "steps_per_update": 60},
    "lagged": {"steps_per_update": 60, "async_rl": True},
    "lagged unrolls": {"num_steps_per_env": 6, "steps_per_update": 60, "async_rl": True},
    "lag 3": {"steps_per_update": 40, "async_rl": True, "num_batches_to_accumulate": 3},
    "lag 3 unrolls": {
        "num_steps_per_env": 6,
        "steps_per_update": 30,
        "async_rl": True,
        "num_batches_to_accumulate": 3,
    },
}


def config_of(
    what: str = "Puzzle", kind: str = "episodes", mode: str = "async", **changes: Any
) -> TrainConfig:
    """A run of 5 envs and some 5 updates. what: a name above, or an environment's."""
    known = {**ENVS, **NETWORKS, **OTHERS}
    fields: dict[str, Any] = {
        "n_envs": 5,
        "n_workers": 2,
        "total_steps": 300,
        "seed": 3,
        "device": "cpu",
        "settings": PPO,
        **KINDS[kind],
        **known.get(what, {"env": what}),
        **changes,
    }
    return TrainConfig(mode, **fields)
