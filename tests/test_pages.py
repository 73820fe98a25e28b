"""What the pages tell a stranger to type works.

Blocks run from the top of a page to its end, in a folder that looks like a fresh checkout, with the
sizes below in the place of those that take minutes.
"""

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.pages import PAGES, ROOT, blocks, lines_of_blocks, name_of
from tests.small_sizes import small
from workflow_rl.commands.main import main

pytestmark = pytest.mark.system

WITH_BLOCKS = [page for page in PAGES if blocks(page)]
FIRST_READ = {"README.md", "python.md"}
"""Pages that are run with every change; the others are among the long checks."""

NOT_EVERYWHERE = {
    "cluster.md": ["ray"],
    "field.md": ["nasim", "cyberbattle", "CybORG", "mpe2"],
    "images.md": ["minigrid", "ale_py", "cv2"],
    "logging.md": ["wandb"],
    "own-challenge.md": ["intruders"],
    "pandas.md": ["pandas"],
}
"""Packages that a page needs: `make ray`, `make notebook` and the page itself install them."""

IN_PYTHON = (("30_000", "3_000"), ("20_000", "2_000"), ("episodes=3_000", "episodes=24"))

OWN = ["python", "-m", "workflow_rl"]

# pip is not to change the environment that the tests run in, nor is Ray there everywhere.
PREAMBLE = f"""
set -euo pipefail
python() {{ {shlex.quote(sys.executable)} "$@"; }}
pip() {{ python -m tests.page_commands pip "$@"; }}
ray() {{ python -m tests.page_commands ray "$@"; }}
sbatch() {{ python -m tests.page_commands sbatch "$@"; }}
squeue() {{ python -m tests.page_commands squeue "$@"; }}
"""


def steps(page: Path) -> Iterator[list[str]]:
    """A page's commands and programs. Programs that follow one another are one. The first three
    words of a command of this package are OWN."""
    kinds = itertools.groupby(
        (block for block in blocks(page) if block.title is None), lambda block: block.language
    )
    for language, group in kinds:
        texts = [block.text for block in group]
        if language == "toml":
            continue
        if language == "python":
            program = "\n".join(texts)
            for large, little in IN_PYTHON:
                program = program.replace(large, little)
            yield [sys.executable, "-c", program]
        else:
            for text in map(small, texts):
                lines = [shlex.split(line) for line in text.splitlines() if line.strip()]
                if page.name not in FIRST_READ:
                    yield ["bash", "-c", PREAMBLE + text]
                    continue
                for words in lines:
                    is_own = words[:3] == OWN
                    yield words if is_own else ["bash", "-c", PREAMBLE + shlex.join(words)]


def take(step: list[str], folder: Path) -> None:
    """Take a step in a folder. A command of this package needs no process of its own."""
    if step[:3] == OWN:
        result = CliRunner().invoke(main, step[3:])
        assert result.exit_code == 0, f"{step}\n{result.output}"
        return
    done = subprocess.run(
        step,
        cwd=folder,
        # STEPS is what the examples read.
        env={**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "STEPS": "2000"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{step[-1]}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page.name in FIRST_READ else pytest.mark.slow)
        for page in WITH_BLOCKS
    ],
    ids=name_of,
)
def test_what_is_to_be_typed_works(page, tmp_path, monkeypatch):
    """In a folder with all that a checkout has, and with .venv set up."""
    for package in NOT_EVERYWHERE.get(page.name, ()):
        pytest.importorskip(package)
    for path in ROOT.iterdir():
        if path.name not in {".git", ".venv", "runs", "site"}:
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        if not path.name.startswith("."):
            (tmp_path / ".venv" / path.name).symlink_to(path)
    stamps = "cat requirements*.txt pyproject.toml | cksum | cut -d ' ' -f 1"
    checksum = subprocess.check_output(["bash", "-c", stamps], cwd=tmp_path, text=True).strip()
    for requirements in ("requirements.txt", "requirements-dev.txt"):
        (tmp_path / ".venv" / f".{requirements}.{checksum}").touch()
    for block in blocks(page):
        if block.title is not None and block.snippet is None:
            (tmp_path / block.title).write_text(block.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for step in steps(page):
        take(step, tmp_path)
    if page.name == "own-environment.md":
        # Acting at random returns -8; whoever walks to the right, 0.
        scores = json.loads((tmp_path / "runs" / "corridor" / "evaluation.json").read_text())
        assert scores["mean"] > -4


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_no_block_is_left_out(page):
    assert page.read_text().count("```") == 2 * len(blocks(page))
    for block in blocks(page):
        assert block.language in {"bash", "python", "toml", "yaml"}
        if block.snippet is not None:
            assert block.title == block.snippet
            assert (ROOT / block.snippet).is_file()


def test_no_block_writes_what_git_would_see():
    """Blocks run with small sizes: one that drew into docs/figures would leave an empty picture."""
    for page, line in lines_of_blocks():
        for output in re.findall(r"--(?:output|png|plot|json|trace) (\S+)", line):
            either = ["git", "check-ignore", output, f"{output}/"]
            hidden = subprocess.run(either, cwd=ROOT, capture_output=True, check=False)
            assert hidden.stdout, f"{name_of(page)}: {output}"
