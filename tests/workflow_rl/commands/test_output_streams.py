"""Where output goes: streams that cannot encode it, and streams that fail."""

import ctypes
import errno
import io
import shutil
import signal
import sys
import time

import click
import pytest
from click.testing import CliRunner

from workflow_rl.commands.main import main
from workflow_rl.commands.one_line_errors import ClearCommand

EPISODES = ["--episodes", "3", "--n-workers", "1", "--quiet"]


@pytest.mark.parametrize(
    ("encoding", "interval", "border"), [("ascii", "+/-", "+-"), ("latin-1", "±", "+-")]
)
def test_a_stream_that_cannot_encode_gets_plain_characters(
    cart_pole_run, tmp_path, encoding, interval, border
):
    run = shutil.copytree(cart_pole_run, tmp_path / "run")
    result = CliRunner(charset=encoding).invoke(main, ["evaluate", str(run), *EPISODES])
    assert result.exit_code == 0, result.exception
    assert interval in result.output
    assert border in result.output
    assert "\\u" not in result.output
    assert (run / "evaluation.json").exists()


def test_files_are_written_before_a_stream_fails(cart_pole_run, tmp_path, monkeypatch):
    run = shutil.copytree(cart_pole_run, tmp_path / "run")
    (run / "evaluation.json").unlink(missing_ok=True)

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(SystemExit) as ended:
        main.main(["evaluate", str(run), *EPISODES], standalone_mode=False)
    assert ended.value.code == 1
    assert (run / "evaluation.json").exists()


def test_ctrl_c_that_a_compiler_loses_comes_again():
    """Numba calls back through ctypes while it compiles. What is raised there is lost."""
    callback = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))

    @click.command(cls=ClearCommand)
    def compiling() -> None:
        callback()
        time.sleep(10)

    begun, before = time.monotonic(), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = CliRunner().invoke(compiling)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 128 + signal.SIGINT
    assert result.output.split() == ["stopped", "by", "SIGINT"]
    assert time.monotonic() - begun < 10
