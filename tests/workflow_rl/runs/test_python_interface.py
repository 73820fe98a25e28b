"""The Python interface: training on functions of the user's own, evaluations, agents that act."""

import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.any_envs import TargetEnv
from tests.tiny_runs import same_weights
from tests.workflow_rl.runs.small_runs import PPO
from workflow_rl import api as interface
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_config, read_metrics


def local_env() -> Callable[..., TargetEnv]:
    """A function that no worker could import."""

    class LocalEnv(TargetEnv):
        def step(self, action: Any) -> Any:
            obs, reward, *rest = super().step(action)
            return obs, reward + 1, *rest

    return lambda length: LocalEnv(length)


def config(**changes: Any) -> TrainConfig:
    fields = {"env": "mine", "env_args": {"length": 6}, "steps_per_update": 60, "device": "cpu"}
    return TrainConfig("async", 4, **{**fields, "total_steps": 150, "settings": PPO, **changes})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By interface.train, from a thread, on environments of a local function."""
    path = tmp_path_factory.mktemp("interface") / "run"
    returned: list[Path] = []
    thread = threading.Thread(
        target=lambda: returned.append(interface.train(config(), path, env=local_env()))
    )
    thread.start()
    thread.join(60)
    assert returned == [path]
    return path


def test_training_from_a_thread_on_a_local_function(trained):
    assert (trained / "learning_curve.png").exists()
    summary = json.loads((trained / "summary.json").read_text())
    assert summary["env"] == "mine"
    assert summary["env_steps"] >= 150
    assert read_config(trained).env_args == {"length": 6}
    lengths = {row["episode_length_mean"] for row in read_metrics(trained)}
    assert lengths == {6}


def test_a_loaded_agent_acts(trained):
    env = local_env()(6)
    agent = interface.load_agent(trained, env=local_env())
    obs, _ = env.reset(seed=0)
    action = agent.act(obs)
    assert env.action_space.contains(action)
    np.testing.assert_array_equal(agent.act(obs), action)
    latest = trained / "checkpoint.safetensors"
    sampling = interface.load_agent(latest, greedy=False, env=local_env())

    def sampled(seed: int) -> list[list[float]]:
        sampling.reset(seed)
        return [sampling.act(obs).tolist() for _ in range(3)]

    assert sampled(1) == sampled(1) != sampled(2)
    first = sampled(1)
    assert first[0] != first[1]


@pytest.mark.parametrize("greedy", [True, False])
def test_an_evaluation_is_the_same_with_any_number_of_workers(trained, greedy):
    how = {"env": local_env(), "seed": 2, "greedy": greedy}
    one, three = (interface.evaluate(trained, 7, n_workers=n, **how) for n in (1, 3))
    assert one.returns == three.returns
    assert len(set(one.returns)) == 7
    assert one.lengths == [6] * 7
    assert one.mean == pytest.approx(sum(one.returns) / 7)
    other_seed = interface.evaluate(trained, 7, env=local_env(), seed=3, n_workers=1)
    assert other_seed.returns != one.returns


def test_an_evaluations_numbers_by_hand():
    evaluation = interface.Evaluation("env", 0, [1.0, 2.0, 6.0], [3, 4, 5], 1.0)
    assert evaluation.mean == 3
    assert evaluation.std == pytest.approx(math.sqrt(7))
    assert evaluation.interval_95 == pytest.approx(4.3027 * math.sqrt(7 / 3), rel=1e-4)
    assert math.isnan(interface.Evaluation("env", 0, [1.0], [3], 1.0).std)


def test_the_interface_resumes_and_begins_with_another_agent(trained, tmp_path):
    first, path = config(total_steps=60), tmp_path / "run"
    interface.train(first, path, env=local_env(), init_from=trained)
    interface.train(config(), path, env=local_env(), resume=True)
    assert read_metrics(path)[-1]["env_steps"] >= 150
    assert not same_weights(path, trained)
    before = (path / "config.json").read_text()
    for change in ({"seed": 9}, {"env_args": {"length": 3}}):
        with pytest.raises(ConfigError, match="but the run to resume has"):
            interface.train(config(**change), path, env=local_env(), resume=True)
    assert (path / "config.json").read_text() == before
    with pytest.raises(ConfigError, match=r"init_from: .*does not go with resume.*own agent"):
        interface.train(config(), path, env=local_env(), resume=True, init_from=trained)
