"""The golden commands end with their stored weights, also if they are killed and resumed."""

import json
from pathlib import Path

import pytest

from tests.kept.golden_commands import COMMANDS, FILE, run, run_interrupted

STORED = json.loads(FILE.read_text())
FAST = ("ppo", "unrolls", "team")
BY_SPEED = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS
]


def test_all_are_stored() -> None:
    assert STORED.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", BY_SPEED)
def test_a_command_ends_with_its_stored_weights(name: str, tmp_path: Path) -> None:
    assert run(name, tmp_path / "run") == STORED[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_and_resumed_does_too(name: str, tmp_path: Path) -> None:
    assert run_interrupted(name, tmp_path / "run") == STORED[name]
