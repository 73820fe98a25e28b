"""Checkpoints: written under a temporary name and renamed, read without running code."""

from __future__ import annotations

import os
import pickle
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from agents.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.slots import Slot

FORMAT = 2
RECENT_EPISODES = 300


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or of another kind."""


@dataclass
class TrainingState:
    """Where a run stands, besides its agent. Seconds and counts are sums over all its updates.

    dropped_steps: env transitions that were collected and never learned from. slots: where the envs
    are that go on from unroll to unroll.
    recent_returns: of the last episodes, oldest first. best_score: of best.pt.
    busy_seconds: the workers' time spent stepping or acting. worker_seconds, of which
    worker_seconds_collecting while collecting: their wall time. All three over all workers.
    """

    updates: int = 0
    episodes: int = 0
    env_steps: int = 0
    wall_seconds: float = 0.0
    collect_seconds: float = 0.0
    update_seconds: float = 0.0
    busy_seconds: float = 0.0
    worker_seconds: float = 0.0
    worker_seconds_collecting: float = 0.0
    learner_idle_seconds: float = 0.0
    workers_restarted: int = 0
    dropped_steps: int = 0
    slots: list[Slot] = field(default_factory=list)
    best_score: float = float("-inf")
    recent_returns: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_EPISODES))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        slots = [list(slot) for slot in self.slots]
        return {**vars(self), "recent_returns": list(self.recent_returns), "slots": slots}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingState:
        """The inverse of `to_dict`."""
        recent = deque(values["recent_returns"], maxlen=RECENT_EPISODES)
        slots = [Slot._make(slot) for slot in values["slots"]]
        return cls(**{**values, "recent_returns": recent, "slots": slots})


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on as if it had never stopped.

    config: TrainConfig.to_dict(). agent: PPOAgent.state_dict(). policies: those that are collecting
    batches meanwhile. There is no random state to keep: every random stream is derived from the
    run's seed and the counters in `training`.
    """

    config: dict[str, Any]
    agent: dict[str, Any]
    training: TrainingState
    policies: list[NumpyPolicy] = field(default_factory=list)


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace `path` in one step: a reader, or a crash, finds the old one or the new one."""
    content = {
        "format": FORMAT,
        "config": checkpoint.config,
        "agent": checkpoint.agent,
        "training": checkpoint.training.to_dict(),
        "policies": [_plain(policy) for policy in checkpoint.policies],
    }
    temporary = path.with_name(f".{path.name}.writing")
    with temporary.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint of this package. Raises CheckpointError.

    With `weights_only`, torch reads tensors and plain values and refuses everything else.
    """
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint at {path}")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        if content["format"] != FORMAT:
            raise CheckpointError(
                f"{path} has checkpoint format {content['format']}, but this version reads {FORMAT}"
            )
        training = TrainingState.from_dict(content["training"])
        policies = [_policy(values) for values in content["policies"]]
        return Checkpoint(content["config"], content["agent"], training, policies)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path} is damaged, or not a checkpoint") from error
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path} is not a checkpoint of this package") from None


def _plain(policy: NumpyPolicy) -> dict[str, Any]:
    weights, biases, activation = policy.parameters
    return {
        "weights": [torch.from_numpy(weight) for weight in weights],
        "biases": [torch.from_numpy(bias) for bias in biases],
        "activation": activation,
        "policy_version": policy.policy_version,
    }


def _policy(values: dict[str, Any]) -> NumpyPolicy:
    parameters = PolicyParameters(
        tuple(weight.numpy() for weight in values["weights"]),
        tuple(bias.numpy() for bias in values["biases"]),
        values["activation"],
    )
    return NumpyPolicy(parameters, values["policy_version"])
