"""Commands where the machine, the folder or an environment gets in the way: they go on, or say in
one line what is wrong."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.any_envs import TargetEnv
from tests.cli import CART_POLE, TINY, said_by
from tests.processes import ended
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.collection.messages import Command
from workflow_rl.collection.worker import failure_of

pytestmark = pytest.mark.system


def refused(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr.splitlines()[-1]


def test_simulators_without_a_compiler(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workflow_rl", "evaluate", "champion", "--episodes", "1"]
    refused(ended(*command, cwd=tmp_path, NUMBA_DISABLE_JIT="1"), "NUMBA_DISABLE_JIT", "unset it")


def test_numba_finds_no_folder_for_its_cache(tmp_path: Path) -> None:
    program = "import workflow_rl.cage2.compiled.simulator, numba; print(numba.config.CACHE_DIR)"
    command = [sys.executable, "-c", program]
    variables = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator", "NUMBA_CACHE_DIR": ""}
    variables["TMPDIR"] = str(tmp_path)
    # A folder in the current one may be a stranger's.
    result = ended(*command, cwd=tmp_path, **variables)
    assert "it is the current folder" in result.stderr
    (here := tmp_path / "here").mkdir()
    result = ended(*command, cwd=here, **variables)
    assert result.returncode == 0, result.stderr
    cache = Path(result.stdout.strip())
    assert cache.parent == tmp_path
    assert cache.stat().st_mode & 0o777 == 0o700
    # Somebody else could put code into a folder that is open.
    cache.chmod(0o777)
    result = ended(*command, cwd=here, **variables)
    assert f"{cache} is open to others" in result.stderr


def test_settings_of_numba_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: pickles\ncache_locator_classes: a.B\n")
    values = "numba.config.CACHE_DIR, numba.config.LOOP_VECTORIZE"
    program = f"import workflow_rl.jit, numba; print([{values}])"
    result = ended(sys.executable, "-c", program, cwd=tmp_path, NUMBA_LOOP_VECTORIZE="0")
    assert result.stdout.strip() == "['', 0]", result.stderr


def test_settings_of_matplotlib_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    latex = tmp_path / "programs" / "latex"
    latex.parent.mkdir()
    latex.write_text(f"#!/bin/sh\ntouch {tmp_path / 'was_called'}\n")
    latex.chmod(0o755)
    command = ["-m", "workflow_rl", "describe-scenario", "scenario2", "--picture", "network.svg"]
    path = f"{latex.parent}:{os.environ['PATH']}"
    result = ended(sys.executable, *command, cwd=tmp_path, PATH=path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "network.svg").exists()
    assert not (tmp_path / "was_called").exists()


def test_a_temporary_folder_with_a_long_name(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * (115 - len(str(tmp_path))))
    folder.mkdir()
    command = [sys.executable, "-m", "workflow_rl", "train-async", *f"{CART_POLE} {TINY}".split()]
    refused(ended(*command, cwd=tmp_path, TMPDIR=str(folder)), f"TMPDIR={folder}", "at most 70")


def test_more_workers_than_files_may_be_open(tmp_path: Path) -> None:
    command = f"ulimit -n 64; exec {sys.executable} -m workflow_rl train-async --env CartPole-v1"
    options = "--n-envs 30 --n-workers 30 --total-steps 60 --device cpu --quiet"
    result = ended("bash", "-c", f"{command} {options}", cwd=tmp_path)
    refused(result, "30 workers", "ulimit -n", "--n-workers")


class WithoutTextError(Exception):
    """Its own code fails to give its text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class WithoutText(TargetEnv):
    """Its second step raises such an error."""

    def step(self, action: Any) -> Any:
        if self._steps == 1:
            raise WithoutTextError
        return super().step(action)


def test_an_exception_whose_text_raises() -> None:
    error = WithoutTextError()
    assert in_one_line(error).startswith("WithoutTextError: ")
    failure = failure_of(Command.PLAY, error)
    assert failure.summary.startswith("WithoutTextError: ")
    told = said_by("check-env", f"{__name__}:WithoutText", code=1)
    assert "fail: WithoutTextError: " in told
