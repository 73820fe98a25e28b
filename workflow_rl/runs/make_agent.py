"""Make the agent of a run, if this machine and the environment allow it."""

from __future__ import annotations

import os

import torch

from workflow_rl.agents.algorithm import LearningAgent
from workflow_rl.agents.policies.torch_layers import set_threads
from workflow_rl.agents.spaces import Spaces
from workflow_rl.collection import try_in_worker
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.config import TrainConfig


def make_agent(config: TrainConfig) -> LearningAgent:
    """Return the new agent of a run. Raises ConfigError if its network is wrong."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("error")
    # To fill uninitialised memory is not needed, because no code reads it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # The number of torch's threads splits sums, and so changes the bits of results.
    set_threads(config.learner_threads)
    try_in_worker.learn_facts(config.environment, config.worker_timeout)
    spaces = config.environment.spaces()
    _require_playable(config, spaces)
    try:
        agent = config.plug_in.make(
            config.settings, spaces, config.seed, config.device, config.learner_threads
        )
    except UserError as error:
        raise ConfigError("network", str(error)) from error
    if agent is None:
        raise ConfigError("algorithm", f"make of {config.algorithm} returns no agent")
    asked = getattr(config.settings, "network", None)
    made = getattr(agent.policy_parameters(), "network", None)
    if asked is not None and made is not None and made != asked:
        raise ConfigError("network", f"{config.algorithm} makes {made}, not {asked}")
    return agent


def _require_playable(config: TrainConfig, spaces: Spaces) -> None:
    """Raise ConfigError for settings that the environment does not support, such as for a team."""
    if config.curriculum and config.environment.steps_together:
        raise ConfigError(
            "curriculum",
            f"{config.env} steps several envs together, and its reset takes no options: train it "
            "without a curriculum",
        )
    if spaces.team is not None and config.num_steps_per_env is not None:
        raise ConfigError(
            "num_steps_per_env",
            f"{config.num_steps_per_env} does not go with a team: it plays complete episodes",
        )
