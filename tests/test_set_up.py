import sys
import tomllib
from pathlib import Path

import pytest

from tests.processes import ROOT, ended
from workflow_rl.check_install import PACKAGES


def test_the_environment_has_the_checkout_in_every_folder(tmp_path):
    assert ended(f"{sys.prefix}/bin/workflow-rl", "--version", cwd=tmp_path, PYTHONPATH="").stdout
    where = "import workflow_rl.agents as a, workflow_rl as w; print(a.__file__, w.__file__)"
    found = ended(sys.executable, "-c", where, cwd=tmp_path, PYTHONPATH="").stdout.split()
    package = ROOT / "workflow_rl"
    assert [Path(file).parent for file in found] == [package / "agents", package]


@pytest.mark.parametrize(
    "command", [["-m", "workflow_rl"], ["workflow_rl/async_train_workflow_rl.py", "--help"]]
)
def test_a_python_without_the_packages_says_so_in_a_line(command):
    refused = ended(sys.executable, "-S", *command, PYTHONPATH="")  # -S: what is installed is not.
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"Error: {sys.executable} lacks the packages click, ")
    assert "source .venv/bin/activate" in line


def test_all_dependencies_are_looked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [line.partition(">=")[0].partition("==")[0] for line in project["dependencies"]]
    imported = [name.replace("-", "_").replace("pyyaml", "yaml") for name in names]
    assert imported == list(PACKAGES)
