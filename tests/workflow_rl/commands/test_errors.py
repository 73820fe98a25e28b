"""What a command says that an error ended: one line, and how to go on."""

import errno
import resource
import signal
import subprocess
import sys
from typing import Any

import click
import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner, Result

from workflow_rl.agents import algorithm
from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.collection.messages import StopRequested, TooManyFailuresError
from workflow_rl.commands.errors import telling, training_errors
from workflow_rl.commands.main import main
from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import spelling
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError, ObservationError, UserError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.run_dir import NotWrittenError

LIMIT = 400 * 2**20


class MisnamedMask(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Offers a mask of actions under a name that means nothing."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**options)[0], {"valid_mask": np.ones(2, np.int8)}


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
def test_where_memory_ends_is_one_line(error, told):
    result = ended_by(error)
    assert result.exit_code == 1
    assert result.output.startswith("Error: memory or threads ran out: ")
    assert told in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "\nstopped by SIGINT"),
        (KeyboardInterrupt(signal.SIGTERM), 143, "\nstopped by SIGTERM"),
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
def test_what_ends_a_command_is_told_in_a_line(error, code, told):
    result = ended_by(error)
    assert result.exit_code == code
    assert result.output.removesuffix("\n").endswith(told)


@pytest.mark.parametrize("error", [RuntimeError("a mistake of ours"), OSError("of no kind")])
def test_other_errors_keep_their_traceback(error):
    assert ended_by(error).exception is error
    assert ended_by(BrokenPipeError(errno.EPIPE, "nobody reads")).output == ""


def test_a_limit_of_memory_is_named(tmp_path):
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


def test_the_commands_that_read_files_of_others_take_trust():
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


def failing(update: object) -> None:
    raise ValueError(f"of {update}")


SAVED = "A checkpoint is saved; go on with: AGAIN"
DIVERGED = "Error: learning diverged: it is inf"
BATCH = "The last checkpoint is kept, and the batch is in RUN/diverged.npz; "


ENDED = [
    (StopRequested(15), 143, "stopped by SIGTERM; go on with: AGAIN"),
    (
        KeyboardInterrupt(1),
        129,
        "stopped by SIGHUP; the last checkpoint is kept; go on with: AGAIN",
    ),
    (
        ObservationError("it is NaN", []),
        *(1, "Error: it is NaN", "The batch is in RUN/diverged.npz"),
        "A checkpoint is saved; correct the environment, then go on with: AGAIN",
    ),
    (TooManyFailuresError("two failed"), 1, "Error: two failed", SAVED),
    (
        NotWrittenError("it is full"),
        *(1, "Error: it is full", "The last checkpoint is kept; go on with: AGAIN"),
    ),
    (
        DivergedError("it is inf"),
        *(1, DIVERGED),
        f"{BATCH}begin again with a smaller --lr, from its weights with --init-from "
        "RUN/checkpoint.safetensors",
    ),
    (DivergedError("it is inf"), 1, DIVERGED, "Nothing is kept; begin again with a smaller --lr"),
]


@pytest.mark.parametrize("row", ENDED)
def test_what_ends_a_training_is_told_with_what_is_left(row, tmp_path, capsys):
    error, code, *told = row
    (tmp_path / "checkpoint.safetensors").touch()
    if any("diverged.npz" in line for line in told):
        (tmp_path / "diverged.npz").touch()
    with pytest.raises(SystemExit) as ended, training_errors("AGAIN", tmp_path, "--lr"):
        raise error
    assert ended.value.code == code
    lines = capsys.readouterr().err.splitlines()
    assert lines == [line.replace("RUN", str(tmp_path)) for line in told]


def test_a_second_signal_before_a_checkpoint_leaves_nothing_to_go_on_with(tmp_path):
    with pytest.raises(KeyboardInterrupt), training_errors("AGAIN", tmp_path):
        raise KeyboardInterrupt(2)


def test_a_users_function_that_fails_is_told_from_its_own_first_line(tmp_path, capsys):
    assert telling(None) is None
    told = telling(failing)
    assert told is not None
    with pytest.raises(SystemExit), training_errors("AGAIN", tmp_path):
        told(7)
    lines = capsys.readouterr().err.splitlines()
    assert "test_errors.py" in lines[1]
    assert lines[-3:] == [
        *("ValueError: of 7", "Error: the function of --on-update failed: see above", SAVED)
    ]


def test_every_name_is_kept_where_it_is_the_users():
    for name in {*TrainConfig.model_fields, *algorithm.find("mbpo").settings.model_fields}:
        error = ConfigError("env", f"{name} does not go with ", name, f", {name}")
        assert error.told(spelling) == f"{name} does not go with {spelling(name)}, {name}"
        assert str(error) == f"env: {name} does not go with {name}, {name}"
