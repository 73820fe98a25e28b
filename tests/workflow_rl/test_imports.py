"""What importing a module loads: workers start many times, and must start quickly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIGHT = {"torch", "click", "pydantic"}
NOT_LOADED = {
    "agents.trajectory": LIGHT,
    "agents.policies.numpy_policy": LIGHT,
    "agents.policies.policy_file": LIGHT,
    "agents.mbpo.algorithm": {"torch"},
    "agents.ppo.algorithm": {"torch"},
    "agents.sac.algorithm": {"torch"},
    "tests.tiny_envs": {"torch"},
    "workflow_rl.cage2.agent.scripted": {"torch", "numba", "csle_cyborg"},
    "workflow_rl.cage2.parity": {"numba"},
    "workflow_rl.cage2.scoring.evaluation_env": {"torch"},
    "workflow_rl.cage4.agent.rules": {"torch", "numba", "networkx"},
    "workflow_rl.collection.worker": {*LIGHT, "numba"},
    "workflow_rl.commands.main": {"torch", "numba", "ray"},
    "workflow_rl.commands.plot": {"torch"},
    "workflow_rl.api": {"matplotlib", "ray"},
    "workflow_rl.runs.loop": {"matplotlib", "ray"},
}
"""Packages that a module does without."""

PROGRAM = """
import importlib, os, sys
import workflow_rl
for module in sys.argv[1:]:
    if os.fork():
        os.wait()
    else:
        importlib.import_module(module)
        print(module, *{name.partition(".")[0] for name in sys.modules}, flush=True)
        os._exit(0)
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """The packages that each module loads, alone in a process."""
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM, *NOT_LOADED],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = (line.split() for line in shown.stdout.splitlines())
    return {module: set(packages) for module, *packages in lines}


@pytest.mark.parametrize("module", NOT_LOADED)
def test_a_module_loads_no_more_than_it_needs(module: str, loaded: dict[str, set[str]]) -> None:
    assert not loaded[module] & NOT_LOADED[module]
