"""A config's command line asks for the same config."""

import shlex
from typing import Any

import pytest

from tests.cli import said_by
from workflow_rl.commands.config_words import words_of
from workflow_rl.runs.config import TrainConfig

CONFIGS: dict[str, dict[str, Any]] = {
    "default": {},
    "preset": {"preset": "cage2-quick", "seed": 3},
    "preset of a team": {"preset": "cage4-quick", "total_episodes": 70},
    "algorithm": {"preset": "sac-control", "env": "Pendulum-v1"},
    "off-policy": {"algorithm": "sac", "env_args": {"actions": "by-host-timed"}},
    "flags": {
        "async_rl": True,
        "batching": "first-come",
        "num_steps_per_env": 10,
        "take_all": True,
    },
    "settings": {"env": "CartPole-v1", "total_steps": 500, "settings": {"hidden_sizes": (8, 4)}},
    "costs": {
        "env": "tests.costly_envs:Hasty",
        "settings": {"budgets": {"wear": 2.0, "cost:p95": 0.5}},
        "reward_from": {"reward": 1.0, "wear": -0.25},
    },
    "arguments": {
        "env": "tests.any_envs:PuzzleEnv",
        "env_args": {"shortest": 3},
        "settings": {"network": "gru", "normalise_obs": False},
    },
    "opening": {"env_args": {"opening": ("Remove User1", "Sleep"), "simulator": "compiled"}},
}


@pytest.mark.parametrize("fields", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_words_ask_for_the_config(fields, mode):
    if mode == "sync" and fields.get("batching"):
        pytest.skip("a barrier has no first")
    config = TrainConfig(mode, **{"n_envs": 6, **fields})
    saved = TrainConfig.from_dict(config.to_dict())
    words = words_of(config)
    if not fields.get("env", "").startswith("tests."):
        assert words == words_of(saved)
    lines = said_by(shlex.join(words), "--dry-run").splitlines()
    told = dict(line.rpartition("  # ")[0].split(": ", 1) for line in lines if ": " in line)
    wanted = {name: str(value) for name, value in config.flat().items()}
    del wanted["n_workers"], wanted["envs_per_worker"]
    assert {name: told.get(name) for name in wanted} == wanted


def test_defaults_need_no_words():
    assert words_of(TrainConfig("async")) == ["train-async"]
    preset = TrainConfig("async", preset="cage2-quick")
    assert words_of(preset) == ["train-async", "--preset", "cage2-quick"]
