"""The team of this folder: trained policies."""

from acting_handed_in import read_handed_in
from acting_policy_team import PolicyTeam
from acting_team_policy import load_policy_or_team

TEAM_FILE = "team.npz"


def make_team() -> PolicyTeam:
    team, about = load_policy_or_team(TEAM_FILE, read_handed_in(TEAM_FILE))
    args = about["env_args"]
    return PolicyTeam(1, team.player(), args["observation"], args["actions"], args["messages"])
