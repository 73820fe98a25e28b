"""Errors of a command that are one line each."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from workflow_rl.commands.one_line_errors import ClearCommand

LIMIT = 400 * 2**20


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "MemoryError"),
        (MemoryError("Unable to allocate 7.28 TiB\nfor an array"), "Unable to allocate 7.28 TiB"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "failed to map"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "can't alloc"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
    ],
)
def test_where_memory_ends_is_one_line(error: Exception, told: str) -> None:
    @click.command(cls=ClearCommand)
    def train() -> None:
        raise error

    result = CliRunner().invoke(train, [])
    assert result.exit_code == 1
    assert result.output.startswith("Error: memory or threads ran out: ")
    assert told in result.output
    assert result.output.count("\n") == 1


def test_other_errors_keep_their_traceback() -> None:
    @click.command(cls=ClearCommand)
    def train() -> None:
        raise RuntimeError("a mistake of ours")

    assert isinstance(CliRunner().invoke(train, []).exception, RuntimeError)


def test_a_limit_of_memory_is_named(tmp_path: Path) -> None:
    options = "train-async --env CartPole-v1 --total-steps 99 --quiet"
    result = subprocess.run(
        [sys.executable, "-m", "workflow_rl", *options.split()],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].endswith("may have 400 MiB (ulimit -v).")
