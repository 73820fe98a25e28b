"""What scripts/setup.sh leaves, and what a Python without the packages says."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from workflow_rl.check_install import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=CLEAN, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_environment_has_the_checkout_in_every_folder(tmp_path: Path) -> None:
    assert run(tmp_path, f"{sys.prefix}/bin/workflow-rl", "--version").stdout
    where = "import workflow_rl.agents as a, workflow_rl as w; print(a.__file__, w.__file__)"
    found = run(tmp_path, sys.executable, "-c", where).stdout.split()
    assert [Path(file).parent for file in found] == [
        ROOT / "workflow_rl" / "agents",
        ROOT / "workflow_rl",
    ]


@pytest.mark.parametrize(
    "command", [["-m", "workflow_rl"], ["workflow_rl/async_train_workflow_rl.py", "--help"]]
)
def test_a_python_without_the_packages_says_so_in_a_line(command: list[str]) -> None:
    refused = run(ROOT, sys.executable, "-S", *command)  # -S: without what is installed.
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"Error: {sys.executable} lacks the packages click, ")
    assert "source .venv/bin/activate" in line


def test_all_dependencies_are_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [line.partition(">=")[0].partition("==")[0] for line in project["dependencies"]]
    imported = [name.replace("-", "_").replace("pyyaml", "yaml") for name in names]
    assert imported == list(PACKAGES)
