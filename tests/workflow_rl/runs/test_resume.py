"""What a resumed run may be given anew."""

import pytest

from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.resume import changes_on_resume, free_on_resume

CONFIG = TrainConfig("async", n_envs=4, n_workers=2)
BEFORE = CONFIG.to_dict()


@pytest.mark.parametrize(
    "asked",
    [
        {"n_workers": 3},
        {"n_envs": 50},
        {"device": "cpu", "checkpoint_every": 3},
        {"total_episodes": 4000},
        {"seed": 0, "learning_rate": 3e-3, "red_agent": "B_lineAgent", "hidden_sizes": (64, 64)},
    ],
)
def test_what_changes_no_weights_may_change(asked):
    config = TrainConfig.from_dict({**BEFORE, **changes_on_resume(BEFORE, asked)})
    after = {name: config.flat()[name] for name in asked if name != "hidden_sizes"}
    assert after == {name: value for name, value in asked.items() if name != "hidden_sizes"}
    assert config.n_workers * config.envs_per_worker >= config.n_envs


@pytest.mark.parametrize(
    "asked",
    [
        {"seed": 1},
        {"learning_rate": 1e-3},
        {"red_agent": "mixed"},
        {"total_episodes": 2999},
        {"total_steps": 10**9},
        {"env": "CartPole-v1"},
        {"batch_size": 3},
    ],
)
def test_what_would_make_it_another_run_may_not(asked):
    with pytest.raises(ConfigError) as caught:
        changes_on_resume(BEFORE, asked)
    assert caught.value.field_name in asked


def test_unrolls_depend_on_the_number_of_envs():
    unrolls = CONFIG.changed(num_steps_per_env=10, episodes_per_update=None)
    assert "n_envs" in free_on_resume(BEFORE)
    assert "n_envs" not in free_on_resume(unrolls.to_dict())
