"""A trained agent, loaded to play: from a run folder or a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from agents.networks import NETWORKS
from agents.numpy_policy import Actor, NumpyPolicy
from agents.ppo import saved_distribution
from agents.running_statistics import RunningMoments
from workflow_rl.collection.environment import Environment
from workflow_rl.collection.gymnasium_env import GymnasiumEnvironment, flattener, unflattener
from workflow_rl.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    checkpoint_path,
    load_checkpoint,
)
from workflow_rl.training.config import TrainConfig


def load_policy(path: Path, greedy: bool = True) -> NumpyPolicy:
    """A checkpoint's actor. Raises CheckpointError."""
    return policy_of(load_checkpoint(path), path, greedy)


def policy_of(checkpoint: Checkpoint, path: Path, greedy: bool = True) -> NumpyPolicy:
    """Its actor. Raises CheckpointError, naming `path`."""
    try:
        ppo, weights = checkpoint.config["ppo"], checkpoint.agent["network"]
        distribution = saved_distribution(checkpoint.agent)
        network = NETWORKS[ppo.get("network", "mlp")](
            weights["actor.0.weight"].shape[1],
            distribution,
            ppo["hidden_sizes"],
            ppo["activation"],
            seed=0,
        )
        network.load_state_dict(weights)
        parameters = network.policy_parameters()
        if "obs_moments" in checkpoint.agent:
            moments = RunningMoments(weights["actor.0.weight"].shape[1])
            moments.load_state_dict(checkpoint.agent["obs_moments"])
            mean, scale = moments.mean_and_scale()
            parameters = parameters._replace(obs_mean=mean, obs_scale=scale)
        return NumpyPolicy(parameters, int(checkpoint.agent["policy_version"]), greedy)
    except RuntimeError:
        raise CheckpointError(
            f"{path} has a network of another shape than its config says"
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise CheckpointError(f"{path} is not a checkpoint of this package") from None


def saved_environment(checkpoint: Checkpoint, path: Path) -> Environment:
    """The environment that the checkpoint's run was trained on. Raises CheckpointError."""
    try:
        return TrainConfig.from_dict(checkpoint.config).environment
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} has a config of another version of the package") from None


class Agent:
    """A trained agent that plays one episode after another.

    policy: acts on flat observations. flatten, unflatten: between the environment's observations
    and actions and the policy's.
    """

    def __init__(
        self,
        policy: Actor,
        flatten: Callable[[Any], np.ndarray],
        unflatten: Callable[[Any], Any],
    ) -> None:
        self.policy = policy
        self._flatten = flatten
        self._unflatten = unflatten

    def reset(self, seed: int = 0) -> None:
        """Begin an episode, whose random choices, if it makes any, follow from `seed`."""
        self.policy.reset(seed)

    def act(self, observation: Any) -> Any:
        """An action of the environment's for one of its observations."""
        action, _ = self.policy.act(self._flatten(observation)[None])
        return self._unflatten(action[0])


def load_agent(
    path: str | os.PathLike[str], greedy: bool = True, env: Callable[..., Any] | None = None
) -> Agent:
    """The agent of a run folder (its best, if there is one) or of a checkpoint file.

    greedy: choose the likeliest actions, or else sample them as in training. env: the function that
    made the environment of the run, if it was no module's. Raises CheckpointError, and
    InvalidEnvironmentError if the environment cannot be made.
    """
    file = checkpoint_path(Path(path))
    checkpoint = load_checkpoint(file)
    policy = policy_of(checkpoint, file, greedy)
    environment = saved_environment(checkpoint, file)
    if env is not None:
        environment = GymnasiumEnvironment(environment.env_id, environment.args, env)
    if not isinstance(environment, GymnasiumEnvironment):
        return Agent(environment.bare_actor(policy), np.asarray, int)
    made = environment.made()
    try:
        return Agent(policy, flattener(made.observation_space), unflattener(made.action_space))
    finally:
        made.close()
