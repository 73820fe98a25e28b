"""Policies that have learned nothing, and the episodes that they play."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.environments.episode import EpisodeSpec


def untrained(
    environment: Any, hidden_sizes: tuple[int, ...] = (32,), masked: bool = True
) -> PolicyParameters:
    """Return a policy that chooses many different actions, greedily too.

    masked: it does without the environment's masks if this is false.
    """
    spaces = environment.spaces()
    network = ActorCritic(
        *(spaces.obs_dim, spaces.distribution, hidden_sizes, "tanh"),
        seed=1,
        masked=masked and spaces.masked,
    )
    return network.policy_parameters()


def save_untrained(path: Path, environment: Any, hidden_sizes: tuple[int, ...] = (32,)) -> Path:
    """Write the file of such a policy, and return its path."""
    about = {"env": environment.env_id, "env_args": dict(environment.args)}
    save_policy(path, untrained(environment, hidden_sizes), about)
    return path


def episodes_of(envs: EnvBatch, actor: Any, specs: Sequence[EpisodeSpec]) -> list[Trajectory]:
    """Play episodes, and return them in the order of their numbers."""
    played = itertools.chain.from_iterable(play_episodes(envs, actor, specs))
    return sorted(played, key=lambda trajectory: trajectory.episode)
