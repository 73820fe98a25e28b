from __future__ import annotations

import pytest

from workflow_rl.agents.policies.team_file import load_policy_or_team
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.cage4.agent.trained_team import policy_team
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.released import RELEASED
from workflow_rl.environments.environment import InvalidEnvironmentError


def test_what_is_no_team_for_the_environment_is_refused() -> None:
    team, about = load_policy_or_team(RELEASED["champion"])
    assert isinstance(team, TeamParameters)
    actor, args = team.actor(greedy=True), about["env_args"]
    assert policy_team(actor, Cage4(**args))
    with pytest.raises(InvalidEnvironmentError, match="see and do in CAGE-4 now"):
        policy_team(actor, Cage4(**{**args, "observation": "flat", "actions": "all"}))
    with pytest.raises(InvalidEnvironmentError, match="the agent is no team for CAGE-4"):
        policy_team(None, Cage4(**args))
