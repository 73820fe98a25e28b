"""The champion of CAGE Challenge 4 that this package brings."""

from __future__ import annotations

from pathlib import Path

from workflow_rl.agents.policies.team_file import load_policy_or_team
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.cage4.agent.policy_team import PolicyTeam

CHAMPION = Path(__file__).parent / "released" / "champion.npz"


def champion() -> PolicyTeam:
    """Return the champion. Its policies choose the likeliest actions."""
    team, about = load_policy_or_team(CHAMPION)
    assert isinstance(team, TeamParameters)
    args = about["env_args"]
    return PolicyTeam(
        team.actor(greedy=True), args["observation"], args["actions"], args["messages"]
    )
