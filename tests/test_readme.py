"""What the README tells a stranger to type for an environment of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECTION = (ROOT / "README.md").read_text().split("## Your own environment")[1].split("\n## ")[0]
ENVIRONMENT, INTERFACE = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
(COMMANDS,) = re.findall(r"```bash\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_env.py").write_text(ENVIRONMENT)
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    answer = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_commands(folder: Path) -> None:
    commands = COMMANDS.replace("\\\n", " ").replace("40000", "6000").splitlines()
    outputs = [run(shlex.split(command)[1:], folder) for command in commands if command]
    assert "seeds         ok" in outputs[0]
    # Acting at random returns -8; whoever walks to the right, 0.
    assert json.loads((folder / "runs" / "corridor" / "evaluation.json").read_text())["mean"] > -4


def test_the_interface(folder: Path) -> None:
    (folder / "program.py").write_text(INTERFACE.replace("30_000", "3_000"))
    assert 8 < float(run(["program.py"], folder)) <= 500
