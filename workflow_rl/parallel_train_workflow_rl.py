"""The synchronous trainer: all environments step together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    # Run as a file: Python put this folder on the path, but the packages lie beside it.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    import workflow_rl  # noqa: F401  # It says what this Python lacks, click for example.

from workflow_rl.commands.train import run_command
from workflow_rl.commands.training_options import training_command


@training_command("train-sync")
def train_sync(**options: Any) -> None:
    """Train an agent synchronously: on CAGE-2, or on any Gymnasium environment.

    All environments step together: one batched forward pass chooses all actions, and the next
    pass waits until the slowest environment has stepped. By default every environment has a
    process of its own, as in SubprocVecEnv. The run is kept in a folder, with its config, metrics,
    checkpoints, TensorBoard events and learning curve.

    \b
    Examples:
      train-sync --n-envs 100 --red-agent RedMeanderAgent --total-episodes 10000
      train-sync --env CartPole-v1 --total-steps 50000
    """
    run_command("sync", options)


if __name__ == "__main__":
    train_sync()
