from __future__ import annotations

import pytest

from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_AGENTS
from workflow_rl.cage4.scoring.leaderboard import SCRIPTED, known_returns


def test_known_returns_are_of_the_challenges_episodes() -> None:
    found = known_returns({"red_agent": str(RED_AGENTS[0]), "max_steps": int(MAX_STEPS)})
    assert found == {score.name: score.mean for score in SCRIPTED}


@pytest.mark.parametrize(
    "changed",
    [{"red_agent": RED_AGENTS[1]}, {"max_steps": MAX_STEPS - 1}, {"phishing_rate": 0.75}],
)
def test_other_episodes_have_no_known_returns(changed: dict[str, object]) -> None:
    assert known_returns({"red_agent": RED_AGENTS[0], "max_steps": MAX_STEPS, **changed}) == {}
