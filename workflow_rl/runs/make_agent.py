"""Make the agent of a run, and load the state of a checkpoint of this run or of another run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from workflow_rl.agents.algorithm import LearningAgent
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.torch_layers import set_threads
from workflow_rl.agents.spaces import Spaces
from workflow_rl.collection import try_in_worker
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.output_files import NOT_OURS
from workflow_rl.runs.checkpoint import MEMORY_FOLDER, Checkpoint
from workflow_rl.runs.config import TrainConfig

LATEST = "checkpoint.safetensors"


def make_agent(config: TrainConfig) -> LearningAgent:
    """Return the new agent of a run.

    Raises ConfigError if its device is missing, or its network is wrong.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("error")
    # To fill uninitialised memory is not needed, because no code reads it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # The number of torch's threads splits sums, and so changes the bits of results.
    set_threads(config.learner_threads)
    try_in_worker.learn_facts(config.environment, config.worker_timeout)
    spaces = config.environment.spaces()
    _require_playable(config, spaces)
    require_device(config)
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


def require_device(config: TrainConfig) -> None:
    """Raise ConfigError if the device that the agent learns on is missing."""
    if config.device == "cuda" and not torch.cuda.is_available():
        why = "finds no CUDA device here" if torch.version.cuda else "is built without CUDA"
        raise ConfigError("device", f"torch {torch.__version__} {why}: use cpu")


def restored_agent(agent: LearningAgent, checkpoint: Checkpoint, path: Path) -> None:
    """Load a checkpoint's state into the agent. Raises UserError, naming `path`."""
    try:
        agent.load_state_dict(checkpoint.agent)
    except (*NOT_OURS, RuntimeError) as error:
        reason = str(error) if type(error) is ValueError else "the networks have another shape"
        if type(error) is KeyError:
            reason = f"it was made by another version of the package: it lacks {error}"
        raise UserError(f"{path} does not fit its config: {reason}") from None


def load_memory(agent: LearningAgent, checkpoint: Checkpoint, run_path: Path) -> None:
    """Load the steps that the agent remembers, if it has a memory. Raises UserError.

    checkpoint: the latest checkpoint of the run in `run_path`.
    """
    memories = agent.memory()
    if not memories:
        return
    from workflow_rl.runs import replay_files  # Few agents have a memory.

    path = run_path / LATEST
    if checkpoint.memory is None:
        raise UserError(
            f"{path} was saved without the steps that its agent remembers, as best.safetensors and "
            "those in kept are: a run cannot go on with it, but another can begin with it "
            "(--init-from)"
        )
    try:
        replay_files.read_parts(run_path / MEMORY_FOLDER, checkpoint.memory, memories)
    except OSError as error:
        raise UserError(
            f"{path} needs {error.filename}, which cannot be read: {error.strerror}"
        ) from None
    except ValueError as error:
        raise UserError(f"{path} cannot be gone on with: {error}") from None


def begin_with(agent: LearningAgent, checkpoint: Checkpoint, config: TrainConfig) -> None:
    """Load the weights of another run's agent. Raises UserError, and ConfigError if the config also
    has a teacher."""
    if config.teacher is not None:
        raise ConfigError(
            "teacher",
            f"{config.teacher} and the run to begin with both give weights: name one, and no "
            "teacher (none, in Python None) beside the run",
        )
    _require_same_function(checkpoint, config)
    try:
        agent.load_policy(checkpoint.agent)
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        reasons = {RuntimeError: "its networks have another shape", ValueError: str(error)}
        missing = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        why = reasons.get(type(error), missing)
        raise UserError(f"the agent of --init-from does not fit this run: {why}") from None


def _require_same_function(checkpoint: Checkpoint, config: TrainConfig) -> None:
    """Raise UserError if the weights would compute another function in this run."""
    try:
        theirs = _function(checkpoint.config["settings"])
    except NOT_OURS:
        return  # Loading the weights reports the error.
    ours = _function(config.settings.to_dict())
    for name, before in theirs.items():
        if None not in (before, ours[name]) and before != ours[name]:
            raise UserError(
                f"the agent of --init-from does not fit this run: it learned with {name} {before}, "
                f"and this run has {ours[name]}"
            )


def _function(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide what weights compute. Raises an error of NOT_OURS."""
    kind = settings.get("network", "mlp")
    defaults = {field.name: field.default for field in dataclasses.fields(NETWORKS[kind])}
    args = {
        name: default for name, default in defaults.items() if default is not dataclasses.MISSING
    }
    args |= dict(settings.get("network_args", {}))
    args.pop("seen_again", None)  # This setting of unrolls does not change the function.
    return {"network": kind, "activation": settings.get("activation"), "network_args": args}
