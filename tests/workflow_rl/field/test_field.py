"""Simulators of the field, each where it is installed: see `scripts/check_field.sh`."""

from __future__ import annotations

import importlib
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.tiny_runs import same_weights

SMALL = {
    "nasim": ("nasim:with_masks", "scenario=tiny", "--total-steps 4000"),
    "cyberbattle": ("cyberbattle:make", "max_steps=30", "--total-steps 600"),
    "CybORG.Simulator.Scenarios.DroneSwarmScenarioGenerator": (
        *("cage3:Drones", "max_steps=10", "--total-steps 80 --steps-per-update 40"),
    ),
}


def told(words: str, *more: object) -> str:
    """What a command prints, in a process of its own: simulators have packages of their own."""
    command = [sys.executable, "-m", "workflow_rl", *shlex.split(words), *map(str, more)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.system
@pytest.mark.parametrize("module", SMALL)
def test_the_same_weights_for_any_number_of_workers(module: str, tmp_path: Path) -> None:
    make, arg, size = SMALL[module]
    pytest.importorskip(module)
    named = f"workflow_rl.field.{make} --env-arg {arg}"
    checked = told(f"check-env {named} --steps 20 --seconds 1")
    assert "seeds         ok" in checked
    assert ("action_masks" in checked) == (make != "cage3:Drones")
    for mode, n_workers in (("async", 1), ("async", 2), ("sync", 5)):
        path = tmp_path / f"{mode}-{n_workers}"
        words = f"train-{mode} --env {named} {size} --n-envs 5 --n-workers {n_workers} --quiet"
        told(words, "--run-dir", path)
        assert same_weights(path, tmp_path / "async-1")
    assert "2 episodes" in told("evaluate --episodes 2", path)


def test_nasims_masks_follow_what_was_discovered() -> None:
    pytest.importorskip("nasim")
    env = importlib.import_module("workflow_rl.field.nasim").with_masks("tiny")
    env.reset(seed=0)
    first = env.action_masks()
    targets = [env.action_space.get_action(number).target for number in range(18)]
    assert {targets[number] for number in np.flatnonzero(first)} == {(1, 0)}
    rng = np.random.default_rng(0)
    for _ in range(300):
        env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
    assert (env.action_masks() >= first).all()
    assert env.action_masks().all()
