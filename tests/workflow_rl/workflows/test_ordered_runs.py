"""Runs whose agents are told an order: the same weights for any workers, kills and resumes."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.workflow_rl.workflows.test_ordered_env import SITES, Visits, fixes, needs
from workflow_rl import TrainConfig, train
from workflow_rl.runs.folder import read_metrics, weights_digest
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.workflows.envs import OrderedEnv


class DeadlyVisits(Visits):
    """Kills its worker in the middle of an episode of the run beside the marker, unless another one
    has done so before."""

    def __init__(self, marker: str) -> None:
        self._marker = marker

    def step(self, action: Any) -> Any:
        is_run = bool(self._marker) and Path(self._marker).with_name("run").exists()
        if is_run and self._steps == 20:
            with suppress(FileExistsError):
                Path(self._marker).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


def make(marker: str = "") -> OrderedEnv:
    return OrderedEnv(DeadlyVisits(marker), list(SITES), needs, fixes)


def trained(path: Path, mode: str = "async", resume: bool = False, **changes: Any) -> str:
    given = {"n_envs": 4, "total_episodes": 16, "episodes_per_update": 8, "n_workers": 1, **changes}
    settings = {"hidden_sizes": (8,), "minibatch_size": 200, "epochs": 1}
    train(
        TrainConfig(mode, env="visits", settings=settings, **given), path, env=make, resume=resume
    )
    return weights_digest(load_checkpoint(path / "checkpoint.safetensors").agent["network"])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: Any) -> str:
    return trained(tmp_path_factory.mktemp("one"))


def test_weights_do_not_depend_on_workers_mode_or_a_kill(undisturbed: str, tmp_path: Path) -> None:
    killed = {"env_args": {"marker": str(tmp_path / "killed")}, "n_workers": 2}
    assert trained(tmp_path / "run", "sync", **killed) == undisturbed
    assert sum(row["workers_restarted"] for row in read_metrics(tmp_path / "run")) == 1


def test_weights_do_not_depend_on_a_resume(undisturbed: str, tmp_path: Path) -> None:
    half = trained(tmp_path / "run", total_episodes=8)
    assert half != undisturbed
    assert trained(tmp_path / "run", resume=True, n_workers=2) == undisturbed
