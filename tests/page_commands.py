"""Commands on the pages that change the machine: `pip` and `ray` here look whether what they are
asked for is there, and do nothing.

`sbatch` runs the jobs itself.

Usage: python -m tests.page_commands pip|ray|sbatch|squeue ARGUMENTS...
"""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def pip(command: str, *arguments: str) -> None:
    """An install of this package with extras it has, of files there are, of versions it takes."""
    assert command == "install"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    ranges = {one.name: one.specifier for one in map(Requirement, chain(*optional.values()))}
    words = iter(arguments)
    for word in words:
        if word == "-r":
            assert (ROOT / next(words)).is_file()
        elif own := re.fullmatch(r"\.(?:\[(.*)\])?", word):
            assert set((own[1] or "").split(",")) <= {"", *optional}, word
        elif (ROOT / word / "pyproject.toml").is_file():
            continue
        elif word not in {"-e", "--require-hashes"}:
            wanted = Requirement(word)
            if wanted.name in ranges:
                (version,) = wanted.specifier
                assert version.version in ranges[wanted.name], word
            else:  # This package does not say which version: neither does the page.
                assert not wanted.specifier, word


def ray(command: str, *arguments: str) -> None:
    """A command of Ray's, if it is installed, with options it has."""
    if importlib.util.find_spec("ray") is None:
        return
    said = [sys.executable, "-m", "ray.scripts.scripts", command, "--help"]
    text = subprocess.run(said, check=True, capture_output=True, text=True).stdout
    for word in arguments:
        assert not word.startswith("--") or word in text, word


def sbatch(*words: str) -> None:
    """A job array of the first two seeds, one after the other, far from any time limit."""
    place = next(n for n, word in enumerate(words) if word.endswith(".sbatch"))
    asked = dict(zip(words[:place:2], words[1:place:2], strict=True))
    for seed in "01":
        variables = {"JOB_NAME": asked["--job-name"], "ARRAY_TASK_ID": seed, "SUBMIT_DIR": "."}
        env = {**os.environ, **{f"SLURM_{name}": value for name, value in variables.items()}}
        subprocess.run(["bash", *words[place:]], check=True, env=env)


def squeue(*words: str) -> None:
    """Nothing waits."""


if __name__ == "__main__":
    {"pip": pip, "ray": ray, "sbatch": sbatch, "squeue": squeue}[sys.argv[1]](*sys.argv[2:])
