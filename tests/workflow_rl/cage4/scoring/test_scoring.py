from typing import Any

import pytest

from workflow_rl.agents.policies.team_policy import load_policy_or_team
from workflow_rl.cage4.agent.trained_teams import RELEASED, trained_team
from workflow_rl.cage4.cyborg.checkout import VARIABLE
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_AGENTS
from workflow_rl.cage4.scoring.leaderboard import SCRIPTED, known_returns
from workflow_rl.cage4.scoring.scoring import Cage4Scoring, ProtocolSettings
from workflow_rl.errors import ConfigError


def test_what_is_no_team_for_the_environment_is_refused():
    team, about = load_policy_or_team(RELEASED["champion"])
    actor, args = team.actor(greedy=True), about["env_args"]
    assert trained_team(actor, Cage4(**args))
    with pytest.raises(ConfigError, match="other observations or actions than CAGE-4 has now"):
        trained_team(actor, Cage4(**{**args, "observation": "flat", "actions": "all"}))
    with pytest.raises(ConfigError, match="the agent is no team for CAGE-4"):
        trained_team(None, Cage4(**args))


def test_the_first_episodes_are_played_again_where_cyborg_is(checkout, monkeypatch, tmp_path):
    asked: dict[str, Any] = {"name": "sleep", "episodes": 2, "seed": 5, "quiet": True}

    def told(**given: Any) -> str | None:
        settings = ProtocolSettings(agent="sleep", max_steps=(5,), **given)
        return Cage4Scoring().score(None, None, settings, **asked).checked

    assert str(told()).startswith("2 of 2 episodes have the same total on CybORG 4 (commit ")
    assert told(check=0) is None
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert "holds no CybORG/env.py" in str(told())
    monkeypatch.delenv(VARIABLE)
    assert told() is None
    assert "CybORG 4 is needed" in str(told(check=2))


def test_known_returns_are_of_the_challenges_episodes():
    challenge = {"red_agent": str(RED_AGENTS[0]), "max_steps": int(MAX_STEPS)}
    assert known_returns(challenge) == {score.name: score.mean for score in SCRIPTED}
    for changed in ({"red_agent": RED_AGENTS[1]}, {"max_steps": 499}, {"phishing_rate": 0.75}):
        assert known_returns({**challenge, **changed}) == {}
