from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import Field

from examples import own_algorithm
from tests.agents.examples import episode_of
from workflow_rl import plug_ins
from workflow_rl.agents import algorithm as algorithms
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.ppo.algorithm import PPO
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.settings import Count, Positive
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import ConfigError

SPACES = Spaces(2, Categorical(2))


class ReinforceConfig(own_algorithm.Config):
    passes: Count = Field(default=1, description="Gradient steps an update.")


class Reinforce(own_algorithm.Reinforce):
    settings = ReinforceConfig


REINFORCE = Reinforce()


class OnceConfig(PPOConfig):
    epochs: Count = 1


class Once(PPO):
    name = "once"
    settings = OnceConfig


class Careful(Once):
    class settings(OnceConfig):
        learning_rate: Positive = 1e-5


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(algorithms, "_registered", {})
    return


def played(policy: NumpyPolicy, number: int) -> Trajectory:
    policy.reset(number)
    obs = np.eye(2, dtype=np.uint8)[np.arange(11) % 2]
    acted = [policy.act(one) for one in obs[:-1]]
    action, log_prob = (np.concatenate(column) for column in zip(*acted, strict=True))
    return episode_of(obs, action, action, log_prob, episode=number)


NONE = object()


def test_a_class_is_taken_and_something_else_refused() -> None:
    assert algorithms.load(f"{__name__}:Reinforce").name == "reinforce"
    with pytest.raises(ConfigError, match="NONE is no algorithm: it has no class `settings`"):
        algorithms.load(f"{__name__}:NONE")


def test_a_default_of_a_class_of_ones_own_wins_over_an_environments() -> None:
    environment = {"epochs": 10, "minibatch_size": 256, "learning_rate": 1e-3}
    once: Any = Once().settings_for(environment)
    assert (once.epochs, once.minibatch_size, once.learning_rate) == (1, 256, 1e-3)
    careful: Any = Careful().settings_for(environment)
    assert (careful.epochs, careful.minibatch_size, careful.learning_rate) == (1, 256, 1e-5)
    given: Any = Once().settings_for(environment, {"epochs": 3})
    assert given.epochs == 3


def test_an_algorithm_of_somebody_else_learns() -> None:
    algorithms.register(REINFORCE)
    assert "reinforce" in algorithms.names()
    algorithm = algorithms.find("reinforce")
    settings = algorithm.settings_for({"learning_rate": 0.02, "minibatch_size": 7}, {"passes": 5})
    agent = algorithm.make(settings, SPACES, seed=1, device="cpu", threads=1)
    returns = []
    for update in range(3):
        policy = NumpyPolicy(agent.policy_parameters(), agent.policy_version)
        rollout = [played(policy, 20 * update + n) for n in range(20)]
        returns.append(np.mean([one.episode_return for one in rollout]))
        metrics = agent.update(rollout, update / 3)._asdict()
        assert tuple(metrics) == algorithm.metrics
    assert returns[0] < returns[1] < returns[2]
    assert agent.policy_version == 3
    assert agent.memory() == {}
    agent.on_modelling(True)

    again = algorithm.make(settings, SPACES, seed=2, device="cpu", threads=1)
    again.load_state_dict(agent.state_dict())
    rollout = [played(policy, n) for n in range(20)]
    assert agent.update(rollout, 0.5) == again.update(rollout, 0.5)


@pytest.mark.parametrize("name", ["ppo", "sac", "mbpo", "reinforce"])
def test_an_actor_and_a_critic_are_read_from_a_state(name: str) -> None:
    algorithms.register(REINFORCE)
    algorithm = algorithms.find(name)
    settings: Any = algorithm.settings(hidden_sizes=(5, 4))
    agent: Any = algorithm.make(settings, SPACES, seed=1, device="cpu", threads=1)
    obs = np.random.default_rng(0).normal(size=(7, 2))
    own, saved = agent.policy_parameters(), algorithm.saved_policy(settings, agent.state_dict())
    np.testing.assert_array_equal(NumpyPolicy(own).outputs(obs), NumpyPolicy(saved).outputs(obs))
    critic, unit = algorithm.saved_critic(settings, agent.state_dict())
    value = agent.network(torch.from_numpy(obs.astype(np.float32)))[1].detach()
    np.testing.assert_allclose(NumpyPolicy(critic).outputs(obs)[:, 0], value, atol=1e-5)
    assert unit == settings.reward_scale
    for other in ((5,), (5, 4, 4), (4, 5)):
        with pytest.raises(RuntimeError):
            algorithm.saved_policy(settings.changed(hidden_sizes=other), agent.state_dict())


def test_a_name_in_a_file_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{__name__}:REINFORCE"
    with pytest.raises(ConfigError, match="is not one of ppo, sac, mbpo") as error:
        algorithms.find(name)
    assert error.value.field_name == "algorithm"
    assert algorithms.load(name).name == "reinforce"
    assert algorithms.find(name).name == "reinforce"


@pytest.mark.parametrize(
    "name", ["dqn", "nowhere:AT_ALL", "workflow_rl.agents.algorithm:nothing", ":x"]
)
def test_what_there_is_not_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as error:
        algorithms.load(name)
    assert error.value.field_name == "algorithm"


def test_an_installed_package_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", f"{__name__}:REINFORCE", "workflow_rl.algorithms")
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [point])
    plug_ins.plug_ins.cache_clear()
    try:
        assert algorithms.names()[:4] == ["ppo", "sac", "mbpo", "theirs"]
        assert algorithms.find("theirs").name == "reinforce"
    finally:
        monkeypatch.undo()
        plug_ins.plug_ins.cache_clear()
