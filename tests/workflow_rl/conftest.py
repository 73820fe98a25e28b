import numpy as np
import pytest

from tests.tiny_envs import CountingEnv
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection import local_pool
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import EpisodeSpec, episode_spec


@pytest.fixture(scope="session")
def policy() -> NumpyPolicy:
    """An actor of the simulator's shape with random weights."""
    random = np.random.default_rng(5)
    sizes = [(52, 16), (16, 145)]
    weights = tuple(random.normal(size=size).astype(np.float32) for size in sizes)
    biases = tuple(random.normal(size=size[1]).astype(np.float32) for size in sizes)
    return NumpyPolicy(PolicyParameters(weights, biases, "tanh"), policy_version=4)


@pytest.fixture
def specs() -> list[EpisodeSpec]:
    return [episode_spec(3, number, RED_AGENTS) for number in range(11)]


@pytest.fixture(scope="session")
def expected(policy: NumpyPolicy) -> list[Trajectory]:
    """The episodes of `specs`, played without a collector."""
    env = SerialEnvs(CountingEnv, 1)
    return [play_episode(env, policy, episode_spec(3, number, RED_AGENTS)) for number in range(11)]


def assert_same_trajectories(left: list[Trajectory], right: list[Trajectory]) -> None:
    """Bitwise."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for name in Trajectory._fields:
            a, b = getattr(one, name), getattr(other, name)
            assert np.array_equal(a, b), (one.episode, name)
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None), name


@pytest.fixture
def exit_codes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes until the end of a worker's process is noticed."""
    process = local_pool._context.Process
    join = process.join
    monkeypatch.setattr(
        process, "join", lambda self, timeout=None: join(self, timeout and max(timeout, 60.0))
    )


@pytest.fixture
def last_marks_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes until workers send them: see LocalPool.close."""
    monkeypatch.setattr(local_pool, "CLOSE_SECONDS", 240.0)
