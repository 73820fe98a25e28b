"""A plug-in for pytest: a test that fails shows what the commands that it called have said."""

import traceback
from collections import deque
from subprocess import Popen
from typing import Any

import pytest
from click.testing import CliRunner, Result

MOST_COMMANDS, MOST_CHARACTERS = 4, 8000
_said: deque[tuple[str, str]] = deque(maxlen=MOST_COMMANDS)
"""By the last commands: the command with its exit code, and its output."""
_invoke, _communicate = CliRunner.invoke, Popen.communicate


def _remembering_invoke(runner: CliRunner, *arguments: Any, **options: Any) -> Result:
    result = _invoke(runner, *arguments, **options)
    is_exit = result.exception is None or isinstance(result.exception, SystemExit)
    error = "" if is_exit else "".join(traceback.format_exception(result.exception))
    _said.append((f"{arguments}: exit code {result.exit_code}", f"{result.output}{error}"))
    return result


def _remembering_communicate(process: Popen[Any], *arguments: Any, **options: Any) -> Any:
    streams = _communicate(process, *arguments, **options)
    said = [part.decode(errors="replace") if isinstance(part, bytes) else part for part in streams]
    _said.append((f"{process.args}: exit code {process.returncode}", "".join(filter(None, said))))
    return streams


def pytest_configure() -> None:
    # As a session's fixture, it would miss the commands of fixtures that pytest makes before it.
    CliRunner.invoke = _remembering_invoke
    Popen.communicate = _remembering_communicate


def pytest_unconfigure() -> None:
    CliRunner.invoke = _invoke
    Popen.communicate = _communicate


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _said.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.failed:
        report.sections += [(about, output[-MOST_CHARACTERS:]) for about, output in _said]
    return report
