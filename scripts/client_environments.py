"""Virtual environments of `check_clients.py` and `benchmark_peers`: this package and one other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT_FROM = ("agents", "workflow_rl", "LICENSE", "README.md", "pyproject.toml", "requirements.txt")


def build_wheel(folder: Path, *options: str) -> Path:
    """Build this checkout's wheel, from a copy: a build leaves files in its folder. The options are
    for `pip wheel`."""
    source = folder / "source"
    source.mkdir()
    for name in BUILT_FROM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    command = [sys.executable, "-P", "-m", "pip", "wheel", "--quiet", "--no-deps", *options]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(environment: Path, wheel: Path, requirements: Path, is_whole: bool = False) -> Path:
    """Make an environment unless it exists, and return its Python.

    is_whole: whether the requirements name all packages, to be installed without what these ask
    for.
    """
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-P", "-m", "venv", str(environment)], check=True)
    pip = [str(python), "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    asked = ["--no-deps"] if is_whole else [str(wheel)]
    subprocess.run([*pip, *asked, "-r", str(requirements)], check=True)
    # The environment may have the same version of other code.
    subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return python


def versions(python: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the installed versions of distributions, by name."""
    code = "import json, sys; from importlib.metadata import version"
    code += "; print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    command = [str(python), "-P", "-c", code, *names]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return {name: found.partition("+")[0] for name, found in json.loads(shown.stdout).items()}
