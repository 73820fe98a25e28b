"""What collectors are compared with."""

from __future__ import annotations

import pytest

from tests.tiny_envs import CountingEnv
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec


@pytest.fixture(scope="session")
def expected(policy: NumpyPolicy) -> list[Trajectory]:
    """The episodes of `specs`, played without a collector."""
    env = SerialEnvs(CountingEnv, 1)
    return [play_episode(env, policy, episode_spec(3, number, RED_AGENTS)) for number in range(11)]
