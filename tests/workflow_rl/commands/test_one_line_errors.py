"""Errors of a command that are one line each."""

from __future__ import annotations

import errno
import resource
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.commands.main import main
from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError, ObservationError, StoppedAtOnce, UserError

LIMIT = 400 * 2**20


def ended_by(error: BaseException) -> Result:
    @click.command(cls=ClearCommand)
    def train() -> None:
        raise error

    return CliRunner().invoke(train, [])


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
    result = ended_by(error)
    assert result.exit_code == 1
    assert result.output.startswith("Error: memory or threads ran out: ")
    assert told in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "\nstopped by SIGINT"),
        (StoppedAtOnce(signal.SIGTERM), 143, "\nstopped by SIGTERM"),
        (click.Abort(), 130, "\nstopped by SIGINT"),
        (OSError(errno.ENOSPC, "No space left", "a\nfile"), 1, "Error: a\\nfile: No space left"),
        (OSError(errno.ENOSPC, "No space left"), 1, "Error: No space left"),
        (UserError("it is\n  empty\x1b"), 2, r"Error: it is empty\x1b"),
        (click.UsageError("it is\n  empty\x1b"), 2, r"Error: it is empty\x1b"),
        (click.UsageError("Zzz"), 2, "Error: Zzz"),
        (StopRequested(signal.SIGTERM), 143, ""),
        (TooManyFailuresError("none can\nbe played"), 1, r"Error: none can\nbe played"),
        (ObservationError("a reward is NaN"), 1, "Error: a reward is NaN"),
        (DivergedError("a loss is NaN"), 1, "Error: a loss is NaN"),
        (ConfigError("n_envs", "0 is too few"), 2, "Invalid value for --n-envs: 0 is too few"),
    ],
)
def test_what_ends_a_command_is_told_in_a_line(error: BaseException, code: int, told: str) -> None:
    result = ended_by(error)
    assert result.exit_code == code
    assert result.output.removesuffix("\n").endswith(told)


@pytest.mark.parametrize("error", [RuntimeError("a mistake of ours"), OSError("of no kind")])
def test_other_errors_keep_their_traceback(error: Exception) -> None:
    assert ended_by(error).exception is error
    assert ended_by(BrokenPipeError(errno.EPIPE, "nobody reads")).output == ""


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


def test_the_commands_that_read_files_of_others_take_trust() -> None:
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    names = {
        name
        for name, command in commands.items()
        if command is not None and any(option.name == "trust" for option in command.params)
    }
    assert names == {
        *("train-sync", "train-async", "train-population", "train-duel", "tune", "exploit"),
        *("evaluate", "export", "record", "replay", "report", "verify", "search-workflow"),
    }
    parity = guests["workflow_rl/CAGE2-v0"].parity()
    assert parity is not None
    assert any(option.name == "trust" for option in parity.params)
