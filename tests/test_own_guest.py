"""A stranger's guest, installed beside the package, of which no file of ours knows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.installed import Installed

ROOT = Path(__file__).parents[1]
Said = Callable[..., str]
ENV = ("--env", "intruders/Intruders-v0")
TINY = ("--total-episodes", "40", "--n-workers", "1", "--hidden-sizes", "8", "--quiet")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has installed the guest."""
    folder = tmp_path_factory.mktemp("guest")
    shutil.copytree(ROOT / "examples" / "own_guest", folder / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", folder / "site"]
    command = [sys.executable, "-m", "pip", "install", *options, folder / "source"]
    subprocess.run([*map(str, command)], check=True, cwd=folder)
    return folder / "site"


@pytest.fixture(scope="module")
def said(installed: Installed, site: Path) -> Said:
    def said(folder: Path, *arguments: str, code: int = 0, beside: Path = site) -> str:
        """What `workflow-rl` says where the guest is installed."""
        variables = {"PYTHONPATH": str(beside)}
        return installed.run(folder, "workflow-rl", *arguments, code=code, **variables)

    return said


@pytest.fixture(scope="module")
def run(said: Said, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    said(folder, "train-async", "--preset", "intruders-quick", *TINY, "--run-dir", "run")
    return folder


def test_the_guest_is_short() -> None:
    files = (ROOT / "examples" / "own_guest").glob("*.*")
    assert sum(len(file.read_text().splitlines()) for file in files) < 150


def test_its_options_are_those_of_its_environment(said: Said, tmp_path: Path) -> None:
    shown = said(tmp_path, "train-async", *ENV, "--help")
    assert "steady|hasty" in shown
    assert "--hosts" in shown
    assert "--simulator" not in shown
    assert "--hosts" not in said(tmp_path, "train-async", "--help")
    refused = said(tmp_path, "train-async", *ENV, "--simulator", "compiled", code=2)
    assert "--simulator does not apply to intruders/Intruders-v0" in refused
    assert "51 is not in the range" in said(tmp_path, "tune", *ENV, "--hosts", "51", code=2)


def test_its_runs_are_evaluated_shown_and_resumed(said: Said, run: Path) -> None:
    assert "5 episodes" in said(run, "evaluate", "run", "--episodes", "5", "--quiet")
    assert "30 steps against steady" in said(run, "replay", "run")
    assert "cleans" in (run / "replay.html").read_text()
    said(run, "report", "run", "--output", "report.html")
    assert "Trained against steady" in (run / "report.html").read_text()
    more = ("--total-episodes", "60", "--quiet", "--hosts", "6")
    said(run, "train-async", "--resume", "run", *more)


def test_it_has_a_command_of_its_own(said: Said, tmp_path: Path) -> None:
    assert "intruders-rules" in said(tmp_path, "--help")
    assert "Blue cleans one host a step" in said(tmp_path, "intruders-rules")


def test_a_guest_that_cannot_be_imported_is_one_line(
    said: Said, site: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(site, broken)
    (broken / "intruders.py").write_text("import nowhere_to_be_found\n")
    line = said(tmp_path, "train-async", *ENV, *TINY, code=2, beside=broken).splitlines()[-1]
    assert "the guest intruders:Intruders cannot be imported" in line
    cart_pole = ("--env", "CartPole-v1", "--total-steps", "50", "--n-workers", "1", "--quiet")
    said(tmp_path, "train-async", *cart_pole, "--run-dir", "run", beside=broken)
