"""Search over the belief: that it finds what an agent misses, and says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from agents.numpy_policy import PolicyParameters
from agents.policy_file import save_policy
from scripts.search_over_belief import look, main, states
from workflow_rl.cage2.compiled.blue_belief import N_SHOWN
from workflow_rl.cage2.environment import Cage2

# Half a minute to compile.
pytestmark = pytest.mark.slow

ENVIRONMENT = Cage2(simulator="compiled", observation="belief", actions="by-host")
SLEEPS = PolicyParameters(
    (np.zeros((N_SHOWN, 45), np.float32),), (np.zeros(45, np.float32),), "tanh"
)


def test_against_an_agent_that_sleeps_something_gains() -> None:
    at = np.full(5, 20)
    looked_at = states(SLEEPS, ENVIRONMENT, "B_lineAgent", 5, at)
    random = np.random.default_rng(0)
    found = [look(SLEEPS, "by-host", state, 40, 40, random) for state in looked_at]
    assert len(found) == 5
    gains = [one.gain for one in found if one is not None]
    assert sum(gains) > 50, "to restore a server that Red owns saves 1 a step, in three cells"
    assert {one.own for one in found if one is not None} == {"Sleep"}


def test_the_command(tmp_path: Path) -> None:
    arguments = ["champion", "--states", "2", "--rollouts", "2", "--steps", "3"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "B_lineAgent: " in result.output
    assert "RedMeanderAgent: " in result.output


def test_an_agent_without_a_belief_is_an_error(tmp_path: Path) -> None:
    save_policy(tmp_path / "blind.npz", SLEEPS, {})
    for agent in (tmp_path / "blind.npz", tmp_path / "none"):
        result = CliRunner().invoke(main, [str(agent)])
        assert result.exit_code == 2, result.output
        assert agent.name in result.output
