"""Commands of the package, called in this process."""

from __future__ import annotations

from click.testing import CliRunner

from workflow_rl.commands.main import main


def output_of(*words: object, code: int = 0) -> str:
    """Call a command, which has to end with this code. Return what it says."""
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == code, result.output
    return result.output
