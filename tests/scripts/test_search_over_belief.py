"""Search over the belief: that it finds what an agent misses, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from agents.policies.numpy_policy import PolicyParameters
from agents.policies.policy_file import save_policy
from scripts.search_over_belief import look, main, states
from workflow_rl.cage2.agent import rollouts
from workflow_rl.cage2.agent.rollouts import that_matter
from workflow_rl.cage2.compiled.blue_belief import N_SHOWN
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES

# Half a minute to compile.
pytestmark = pytest.mark.slow

ENVIRONMENT = Cage2(simulator="compiled", observation="belief", actions="by-host")
SLEEPS = PolicyParameters(
    (np.zeros((N_SHOWN, 45), np.float32),), (np.zeros(45, np.float32),), "tanh"
)


def test_against_an_agent_that_sleeps_something_gains() -> None:
    at = np.full(5, 20)
    looked_at = states(SLEEPS, ENVIRONMENT, "B_lineAgent", at)
    random = np.random.default_rng(0)
    found = [look(SLEEPS, "by-host", state, 40, 40, random) for state in looked_at]
    assert len(found) == 5
    assert len([one for one in found if one is not None and one.gain > 2]) >= 3
    assert {one.own for one in found if one is not None} == {"Sleep"}


def test_chance_is_no_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rewards are noise, the best of several looks good and is judged by others."""

    def noise(*arguments: Any) -> np.ndarray:
        _, _, _, first, n_steps, n_rollouts, random = arguments
        return np.asarray(random.normal(size=(len(first), n_rollouts, n_steps)))

    monkeypatch.setattr(rollouts, "imagined_rewards", noise)
    (state,) = states(SLEEPS, ENVIRONMENT, "RedMeanderAgent", np.zeros(1, int))
    random = np.random.default_rng(0)
    found = [look(SLEEPS, "by-host", state, 10, 1, random) for _ in range(60)]
    gains = [one.gain for one in found if one is not None]
    assert len(gains) > 30
    assert abs(np.mean(gains)) < 4 * np.std(gains) / np.sqrt(len(gains))


def test_what_changes_anything() -> None:
    """As an episode begins nobody is anywhere: Blue sleeps, or sets up a decoy."""
    ((where, _),) = states(SLEEPS, ENVIRONMENT, "B_lineAgent", np.zeros(1, int))
    names = [ACTION_NAMES[action] for action in that_matter("by-host", where).values()]
    assert names[0] == "Sleep"
    assert len(names) == 12
    assert all(name.startswith("Decoy") for name in names[1:])


def test_the_command() -> None:
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
