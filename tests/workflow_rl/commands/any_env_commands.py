"""Commands on Gymnasium environments, and what is to be one clear line."""

from __future__ import annotations

from click.testing import CliRunner, Result

from workflow_rl.commands.main import main

TINY = [
    *("--n-envs", "2", "--n-workers", "1", "--total-steps", "60", "--steps-per-update", "30"),
    *("--hidden-sizes", "8", "--epochs", "1", "--device", "cpu", "--quiet"),
]
CART_POLE = ["--env", "CartPole-v1"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    error = result.output.strip().splitlines()[-1]
    assert error.startswith("Error: ")
    for part in parts:
        assert part in error
    assert "Traceback" not in result.output
