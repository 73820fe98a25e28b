"""The teams for CAGE Challenge 4 that this package brings."""

from __future__ import annotations

from workflow_rl.agents.policies.team_file import load_policy_or_team
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.cage4.agent.policy_team import PolicyTeam
from workflow_rl.cage4.released import RELEASED


def released_team(name: str) -> PolicyTeam:
    """Return a released team. Its policies choose the likeliest actions."""
    team, about = load_policy_or_team(RELEASED[name])
    assert isinstance(team, TeamParameters)
    args = about["env_args"]
    return PolicyTeam(team.player(), args["observation"], args["actions"], args["messages"])
