import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.installed import Installed

ROOT = Path(__file__).parents[1]
Said = Callable[..., list[str]]
ENV = "--env intruders/Intruders-v0"
TINY = "--total-episodes 40 --n-workers 1 --hidden-sizes 8 --quiet"
COMMANDS = """
import json, pathlib, sys
from click.testing import CliRunner
from workflow_rl.commands.main import main

results = [CliRunner().invoke(main, line.split()) for line in sys.argv[3:]]
for result in results:
    assert result.exit_code == int(sys.argv[1]), (result.output, result.exception)
pathlib.Path(sys.argv[2]).write_text(json.dumps([result.output for result in results]))
"""


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
    def said(folder: Path, *lines: str, code: int = 0, beside: Path = site) -> list[str]:
        """What `workflow-rl` says to each line, in one process, where the guest is installed."""
        arguments = (str(code), str(folder / "said.json"), *lines)
        installed.run(folder, "python", "-c", COMMANDS, *arguments, PYTHONPATH=str(beside))
        told: list[str] = json.loads((folder / "said.json").read_text())
        return told

    return said


@pytest.fixture(scope="module")
def run(said: Said, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    said(folder, f"train-async --preset intruders-quick {TINY} --run-dir run")
    return folder


def test_the_guest_is_short():
    files = (ROOT / "examples" / "own_guest").glob("*.*")
    assert sum(len(file.read_text().splitlines()) for file in files) < 150


def test_its_options_are_those_of_its_environment(said, tmp_path):
    shown, of_default = said(tmp_path, f"train-async {ENV} --help", "train-async --help")
    assert "steady|hasty" in shown
    assert "--hosts" in shown
    assert "--simulator" not in shown
    assert "--hosts" not in of_default
    lines = (f"train-async {ENV} --simulator compiled", f"tune {ENV} --hosts 51")
    of_another, too_large = said(tmp_path, *lines, code=2)
    assert "--simulator does not apply to intruders/Intruders-v0" in of_another
    assert "51 is not in the range" in too_large


def test_its_runs_are_evaluated_shown_and_resumed(said, run):
    evaluated, replayed, *_ = said(
        run,
        "evaluate run --episodes 5 --quiet",
        "replay run",
        "report run --output report.html",
        "train-async --resume run --total-episodes 60 --quiet --hosts 6",
    )
    assert "5 episodes" in evaluated
    assert "30 steps against steady" in replayed
    assert "cleans" in (run / "replay.html").read_text()
    assert "Trained against steady" in (run / "report.html").read_text()


def test_it_has_a_command_of_its_own(said, tmp_path):
    commands, rules = said(tmp_path, "--help", "intruders-rules")
    assert "intruders-rules" in commands
    assert "Blue cleans one host a step" in rules


def test_a_guest_that_cannot_be_imported_is_one_line(said, site, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(site, broken)
    (broken / "intruders.py").write_text("import nowhere_to_be_found\n")
    (refused,) = said(tmp_path, f"train-async {ENV} {TINY}", code=2, beside=broken)
    assert "the guest intruders:Intruders cannot be imported" in refused.splitlines()[-1]
    cart_pole = "--env CartPole-v1 --total-steps 50 --n-workers 1 --quiet"
    said(tmp_path, f"train-async {cart_pole} --run-dir run", beside=broken)
