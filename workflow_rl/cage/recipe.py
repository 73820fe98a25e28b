"""Runs of a champion's recipe by the trainer, and the candidates among a finished run's agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workflow_rl.reporting import learning_curve
from workflow_rl.runs import checkpoint, execute, folder, loop, plan
from workflow_rl.runs.config import TrainConfig


def train_recipe(config: TrainConfig, run_dir: Path, quiet: bool = True) -> dict[str, Any]:
    """Train in a new folder, or go on with this run in its own. Returns the run's summary.

    Raises RunDirError if the folder holds another run, CheckpointError, and what ends a training.
    """
    resumed = None
    if (run_dir / "checkpoint.pt").exists():
        _require_same_run(config, run_dir)
        resumed = checkpoint.load_checkpoint(run_dir / "checkpoint.pt")
    elif run_dir.is_dir() and any(run_dir.iterdir()):
        raise folder.RunDirError(
            f"{run_dir} holds no run of {config.env} that can go on: choose another folder, or "
            "give the --env of its run"
        )
    if resumed is None or not folder.is_finished(run_dir):
        ready = execute.ready(plan.Plan([config], [resumed]))
        execute.execute(
            *(ready, run_dir),
            quiet=quiet,
            choose=False,
            watch=loop.stopped_by_signals,
            draw=learning_curve.plot_learning_curve,
        )
    return folder.read_summary(run_dir)


def _require_same_run(config: TrainConfig, run_dir: Path) -> None:
    before, free = folder.read_config(run_dir).flat(), plan.free_on_resume(config.to_dict())
    for name, value in config.flat().items():
        if name not in free and before.get(name) != value:
            raise folder.RunDirError(
                f"{run_dir} holds another run, whose {name} is {before.get(name)} and not {value}: "
                "choose another folder"
            )


def last_agents(run_dir: Path, most: int) -> list[Path]:
    """Return the run's last checkpoints, each agent once: those that were kept, and the last."""
    kept, last = sorted(run_dir.glob("kept/*.pt"))[-most:], run_dir / "checkpoint.pt"
    if run_dir / folder.kept_name(checkpoint.load_checkpoint(last).training.updates) in kept:
        return kept
    return [*kept, last]


def eligible_agents(run_dir: Path) -> list[Path]:
    """Return checkpoints that may be the best of a finished run, each agent once: the agent that
    the training returns suggest, the last one, and those of the last half that --keep-every kept.

    Raises CheckpointError.
    """
    half = checkpoint.load_checkpoint(run_dir / "checkpoint.pt").training.updates / 2
    paths = [run_dir / "checkpoint.pt", run_dir / "best.pt", *sorted(run_dir.glob("kept/*.pt"))]
    by_update = {
        updates: path
        for path in reversed(paths)
        if (updates := checkpoint.load_checkpoint(path).training.updates) >= half
        or path.name == "best.pt"
    }
    return list(by_update.values())
