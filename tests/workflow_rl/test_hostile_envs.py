"""Hostile environments hurt only themselves: a run of one equals its harmless twin's, or there is
one line, within the deadline. The process and the machine are as before.

`tests/test_hostile_commands.py` gives them to all commands."""

from pathlib import Path
from typing import Any

import pytest

from tests.hostile_envs import DEEDS, IMPORT_TORCH, write_module
from tests.process_state import process_state
from tests.tiny_runs import same_weights
from workflow_rl import TrainConfig, train
from workflow_rl.errors import ConfigError

pytestmark = pytest.mark.system

SETTINGS = {"hidden_sizes": (4,), "epochs": 1, "minibatch_size": 20}


def config_of(env: str, deadline: float = 60.0) -> TrainConfig:
    asked: dict[str, Any] = {"env": env, "total_steps": 40, "steps_per_update": 20, "n_envs": 2}
    return TrainConfig(
        "async", **asked, n_workers=1, settings=SETTINGS, worker_timeout=deadline, device="cpu"
    )


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(config_of("tests.hostile_envs:Harmless"), tmp_path_factory.mktemp("twin"))


@pytest.mark.parametrize("name", [name for name in DEEDS if name not in IMPORT_TORCH[1:]])
def test_an_environment_hurts_only_itself(name, twin, tmp_path, monkeypatch):
    env = write_module(tmp_path, name)
    monkeypatch.chdir(tmp_path)
    config = config_of(env, 1.0 if DEEDS[name].hangs else 60.0)
    before = process_state()
    if DEEDS[name].is_refused:
        with pytest.raises(ConfigError, match=env) as refused:
            train(config, "run")
        assert "\n" not in str(refused.value)
        assert not (tmp_path / "run").exists()
    else:
        assert same_weights(train(config, "run"), twin)
    assert process_state() == before
