"""The asynchronous trainer: workers play complete episodes by themselves."""

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


@training_command("train-async")
def train_async(**options: Any) -> None:
    """Train an agent asynchronously: on CAGE-2, or on any Gymnasium environment.

    Worker processes play complete episodes, acting by themselves with a copy of the policy, and
    return them. No worker waits for the step of another. The run is kept in a folder, with its
    config, metrics, checkpoints, TensorBoard events and learning curve.

    \b
    Examples:
      train-async --n-envs 100 --red-agent RedMeanderAgent --total-episodes 10000
      train-async --env CartPole-v1 --total-steps 50000
    """
    run_command("async", options)


if __name__ == "__main__":
    train_async()
