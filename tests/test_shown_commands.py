"""What a failed test shows of the commands that it called."""

import sys

from tests.processes import ended

TESTS = """
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner


@click.command()
@click.option("--fault", type=click.Choice(["none", "usage", "error"]), required=True)
def command(fault):
    click.echo(f"said before the {fault}")
    if fault == "error":
        raise RuntimeError("an error in the command")


def invoke(*arguments):
    return CliRunner().invoke(command, list(arguments)).exit_code


@pytest.fixture(scope="module")
def made():
    assert invoke() == 0


def test_fixture(made):
    pass


def test_usage():
    assert invoke("--fault", "wrong") == 0


def test_error():
    assert invoke("--fault", "error") == 0


def test_process():
    fails = [sys.executable, "-c", "exit('said by a process')"]
    subprocess.run(fails, check=True, capture_output=True)


def test_passes():
    assert invoke("--fault", "none") == 0
"""


def test_a_failed_check_of_an_exit_code_shows_the_output(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-m", "pytest", "-p", "tests.shown_commands", "-c", "/dev/null"]
    shown = ended(sys.executable, *options, "--rootdir", tmp_path, tmp_path).stdout
    assert "3 failed, 1 passed, 1 error" in shown
    for line in (
        *("Missing option '--fault'", "'wrong' is not one of", "said before the error"),
        *("RuntimeError: an error in the command", "said by a process", "exit code 2"),
    ):
        assert line in shown, line
    assert "said before the none" not in shown
