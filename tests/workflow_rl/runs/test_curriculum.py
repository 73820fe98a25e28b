"""Episodes that know how far the run is. CountingEnv shows in its observations what it is told."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.tiny_runs import run, same_weights
from tests.workflow_rl.runs.small_runs import config_of
from workflow_rl.collection.assignments import first_positions
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.read_checkpoint import load_checkpoint


def test_progress_is_the_share_of_the_episodes():
    specs = [episode_spec(0, number, total=40) for number in (0, 10, 40, 50)]
    assert [spec.progress for spec in specs] == [0.0, 0.25, 1.0, 1.0]
    assert episode_spec(0, 10).progress is None
    assert episode_spec(0, 10)[:4] == specs[1][:4]


def test_an_environment_is_told_its_progress_and_else_nothing():
    told: list[Any] = []

    class Listening(gymnasium.Env[Any, Any]):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            told.append(options)
            return np.zeros(1), {}

    envs = SerialEnvs(Listening, 2)
    envs.reset([0, 1], [episode_spec(0, 3, total=4), episode_spec(0, 3)])
    assert told == [{"progress": 0.75}, None]


def test_an_episode_that_has_begun_keeps_its_progress():
    (at,) = first_positions(0, (), 1, 6, total=8)
    resumed = at._replace(total=16, begun_with=8)
    assert (at.spec.progress, resumed.spec.progress) == (0.75, 0.75)
    assert (at.next.spec.progress, resumed.next.spec.progress) == (0.875, 0.4375)


def test_it_changes_what_is_learned(undisturbed, tmp_path):
    run(tmp_path, config_of("curriculum", curriculum=False))
    assert not same_weights(tmp_path, undisturbed("curriculum"))


def test_an_unroll_goes_on_in_its_episode_in_a_longer_run(tmp_path):
    """What the resumed run shows of the begun episodes is what it showed before."""
    run(tmp_path / "run", config_of("curriculum", "unrolls", total_episodes=20))
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    before = load_checkpoint(checkpoint).training.slots
    assert any(actions is not None for _, actions, _ in before)
    assert {total for *_, total in before} == {20}
    run(tmp_path / "run", config_of("curriculum", "unrolls", total_episodes=200))
    assert {total for *_, total in load_checkpoint(checkpoint).training.slots} == {200}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_episodes": None, "total_steps": 100}, "total_episodes"),
        ({"eval_every": 0}, "needs eval_every"),
    ],
)
def test_what_does_not_go_with_it(changes, message):
    with pytest.raises(ConfigError, match=f"^curriculum: .*{message}"):
        config_of("curriculum", **changes)
    with pytest.raises(ConfigError, match=r"^curriculum: workflow_rl/CAGE2-v0 has none"):
        TrainConfig("async", curriculum=True)


def test_a_batched_env_is_refused(tmp_path):
    config = config_of("curriculum", env="examples.own_simulator:Corridors")
    with pytest.raises(ConfigError, match="takes no options: train it without a curriculum"):
        run(tmp_path, config)
    assert not list(tmp_path.iterdir())
