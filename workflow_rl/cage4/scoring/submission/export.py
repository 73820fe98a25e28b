"""Write the folder of a submission to CAGE Challenge 4: policies, and copies of acting modules."""

from pathlib import Path

from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.cage4.agent.trained_teams import RELEASED
from workflow_rl.cage4.cyborg.checkout import COMMIT
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS
from workflow_rl.environments.challenge import Exported
from workflow_rl.environments.environment import Environment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.export import needs_of, write_handed_in

ACTING = (
    "workflow_rl.agents.policies.team_policy",
    "workflow_rl.agents.team",
    "workflow_rl.agents.trajectory",
    "workflow_rl.cage4.agent.belief",
    "workflow_rl.cage4.agent.messages",
    "workflow_rl.cage4.agent.policy_team",
    "workflow_rl.cage4.agent.raw_record",
    "workflow_rl.cage4.agent.rules",
    "workflow_rl.cage4.agent.blue_team",
    "workflow_rl.cage4.agent.views",
    "workflow_rl.cage4.agent.gate",
    "workflow_rl.cage4.scenario.actions",
    "workflow_rl.cage4.scenario.scenario4",
)
"""The modules that are copied into the folder."""
RULES = "rules"
TEAM_FILE = "team.npz"
_FILES = Path(__file__).parent / "files"


def write_submission(exported: Exported, environment: Environment, folder: Path) -> None:
    """Fill the folder. exported: a team's parameters, RULES, or the name of a released team.

    Raises ConfigError for a team that the challenge cannot play.
    """
    if isinstance(exported, TeamParameters):
        if exported.layout != environment.spaces().team:
            raise ConfigError("observation", "the team was trained on other observations than now")
        if environment.args["max_steps"] != MAX_STEPS:
            raise ConfigError("max_steps", f"the challenge's episodes have {MAX_STEPS} steps")
    elif exported not in (RULES, *RELEASED):
        raise ConfigError("env", f"{exported} is none of {', '.join((RULES, *RELEASED))}")
    made_of = "rules" if exported == RULES else "policies"
    files: dict[str, Path | str] = {
        "acting_make_team.py": _FILES / f"{made_of}.py",
        "submission.py": _FILES / "submission.py",
        "metadata": "",
        "requirements.txt": "# What the team needs beside CybORG 4 of\n"
        f"# https://github.com/cage-challenge/cage-challenge-4 at commit {COMMIT}.\n"
        f"numpy\n{needs_of(exported)}",
    }
    if isinstance(exported, str) and exported in RELEASED:
        files[TEAM_FILE] = RELEASED[exported]
    about = {"env": environment.env_id, "env_args": dict(environment.args)}
    write_handed_in(folder, exported, about, TEAM_FILE, ACTING, files)
