"""Simulators of the field, each where it is installed: see `scripts/check_field.sh`."""

import contextlib
import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tiny_runs import same_weights
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

SMALL = {
    "nasim": ("nasim:with_masks", "scenario=tiny", "--total-steps 4000"),
    "cyberbattle": ("cyberbattle:make", "max_steps=30", "--total-steps 600"),
    "smaclite": ("smaclite:Battle", "max_steps=10", "--total-steps 80 --steps-per-update 40"),
}
FIELD, FOLDER = "workflow_rl.field.", Path(os.environ.get("WORKFLOW_RL_FIELD", "runs/field"))
SHORT = FOLDER / "primaite/short.yaml"
NETWORK = FOLDER / "sources/nasimemu/scenarios/sm_entry_dmz_one_subnet.v2.yaml"
THERE = {
    f"{FIELD}cage3:Drones": ("cage3", "--env-arg max_steps=10", 80),
    f"{FIELD}csle:stopping": ("csle", "", 600),
    f"{FIELD}csle:intrusion_response": ("csle", "--env-arg max_steps=20", 600),
    f"{FIELD}cyberwheel:Seeded": ("cyberwheel", "--env-arg num_steps=20", 600),
    f"{FIELD}idsgame:Player": ("idsgame", "--env-arg max_steps=20", 400),
    f"{FIELD}nasimemu:Hosts": ("nasimemu", f"--env-arg scenario={NETWORK}", 1200),
    f"{FIELD}primaite:configured": ("primaite", f"--env-arg config={SHORT}", 256),
    f"{FIELD}yawning_titan:network_env": ("yawning_titan", "", 600),
    "minigrid:MiniGrid-Empty-5x5-v0": ("gymnasium", "--ignore-unknown", 600),
    "highway_env:highway-fast-v0": ("gymnasium", "", 100),
    "Hopper-v5": ("gymnasium", "", 600),
    "ale_py:ALE/Breakout-v5": ("gymnasium", "--env-arg obs_type=ram", 1200),
}


def require_equal_weights(named: str, size: str, folder: Path) -> None:
    """Train with both trainers and several numbers of workers."""
    for mode, n_workers in (("async", 1), ("async", 2), ("sync", 5)):
        path = folder / f"{mode}-{n_workers}"
        words = f"train-{mode} --env {named} {size} --n-envs 5 --n-workers {n_workers} --quiet"
        told(words, "--run-dir", path)
        assert same_weights(path, folder / "async-1")
    assert "2 episodes" in told("evaluate --episodes 2", path)


def interpreter_of(name: str) -> Path:
    """That of a simulator. Skips the test where `check_field.sh` did not make one."""
    python = FOLDER / name / "bin/python"
    if not python.exists():
        pytest.skip(f"{FOLDER} has no {name}")
    return python


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
    assert "rules actions out" in checked
    require_equal_weights(named, size, tmp_path)


@pytest.mark.system
@pytest.mark.parametrize("env", [pytest.param(e, id=f"{THERE[e][0]}-{e}") for e in THERE])
def test_the_same_weights_in_its_own_interpreter(env: str, tmp_path: Path) -> None:
    name, args, steps = THERE[env]
    python = interpreter_of(name)
    size = f"--total-steps {steps} --steps-per-update {steps // 2}"
    require_equal_weights(f"{env} --env-python {python} {args}", size, tmp_path)


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


@pytest.mark.system
def test_drones_that_red_takes_are_missed_in_their_own_interpreter_of_cage3() -> None:
    python = interpreter_of("cage3")
    drones = GymnasiumEnvironment(f"{FIELD}cage3:Listening", python=str(python))
    made: Any = drones.make_env().unwrapped
    with contextlib.closing(made):
        env = made.env
        obs, infos = env.reset(seed=0)
        n_busy = [0]
        for step in range(80):
            taken = [k for k, a in enumerate(env.agents) if infos[a]["busy_steps"]]
            for agent in {*env.agents} - {env.agents[k] for k in taken}:
                others = obs[agent][40:108].reshape(17, 4)
                reached = others[others[:, 1:3].any(axis=1), 0]
                assert all(obs[agent][108 + k] for k in taken if k in reached)
            n_busy.append(len(taken))
            chosen = {a: int(obs[a][108:].argmax()) if step > 40 else 18 for a in env.agents}
            acting = [a for a in env.agents if not infos[a]["busy_steps"]]
            obs, *_, infos = env.step({a: chosen[a] for a in acting})
    assert max(n_busy) > 1
    assert n_busy[-1] < max(n_busy)
