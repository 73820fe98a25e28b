"""A plug-in for pytest: the wheel, installed in an environment of its own."""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.client_environments import build_wheel

ROOT = Path(__file__).resolve().parents[1]


class Installed(NamedTuple):
    """folder: of the wheel and of `venv`, the environment. It knows nothing of the checkout."""

    folder: Path

    @property
    def wheel(self) -> Path:
        (wheel,) = self.folder.glob("*.whl")
        return wheel

    @property
    def site(self) -> Path:
        (site,) = self.folder.glob("venv/lib/python*/site-packages")
        return site

    def run(self, folder: Path, *command: str | Path, code: int = 0, **variables: str) -> str:
        """Run a command in a folder with the environment's programs, and return what it says."""
        path = f"{self.folder / 'venv' / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PYTHONPATH": "", **variables, "PATH": path}
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
        )
        assert result.returncode == code
        return result.stdout + result.stderr


def install(installed: Installed) -> None:
    """Install the wheel, beside the packages that are here and a stranger's `agents`."""
    installed.folder.mkdir()
    # With the setuptools that is here: an isolated build would install another.
    wheel = build_wheel(installed.folder, "--no-build-isolation")
    venv.create(installed.folder / "venv", symlinks=True)
    packages = [path for path in sys.path if path.endswith("site-packages")]
    (installed.site / "packages.pth").write_text("\n".join(packages))
    python = installed.folder / "venv" / "bin" / "python"
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *options]
    subprocess.run([*pip, str(wheel)], check=True)
    (installed.site / "agents").mkdir()
    (installed.site / "agents" / "__init__.py").write_text("raise ImportError('a stranger')\n")
    # The same sources make the same compiled code.
    for file in ROOT.glob("workflow_rl/cage*/compiled/__pycache__/*.nb?"):
        (cache := installed.site / file.parent.relative_to(ROOT)).mkdir(exist_ok=True)
        shutil.copy(file, cache)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Made once for all processes of a test run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = Installed(folder / "installed")
        if not installed.folder.exists():
            install(installed)
    return installed
