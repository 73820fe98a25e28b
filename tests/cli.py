"""Commands of the package, called in this process."""

import shlex

from click.testing import CliRunner, Result

from workflow_rl.commands.main import main

CART_POLE = "--env CartPole-v1"
TINY = (
    "--n-envs 2 --n-workers 1 --total-steps 60 --steps-per-update 30 "
    "--hidden-sizes 8 --epochs 1 --device cpu --quiet"
)


def call(*words: object) -> Result:
    """Call a command. A text is split into words as a shell splits it; a path is one word."""
    split: list[str] = []
    for word in words:
        split += shlex.split(word) if isinstance(word, str) else [str(word)]
    return CliRunner().invoke(main, split)


def said_by(*words: object, code: int = 0) -> str:
    """Call a command, which has to end with this code. Return what it says."""
    result = call(*words)
    assert result.exit_code == code, result.output
    return result.output


def output_of(*words: object, code: int = 0) -> str:
    """Do as `said_by` does, but split no text."""
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == code, result.output
    return result.output


def refused(result: Result, *parts: str) -> str:
    """Check that a command was refused in one line that says these parts. Return the line."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    error = result.output.strip().splitlines()[-1]
    assert error.startswith("Error: ")
    for part in parts:
        assert part in error
    return error
