"""A trained team, as it is scored and played against."""

from __future__ import annotations

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.cage4.agent.policy_team import PolicyTeam
from workflow_rl.environments.environment import Environment, InvalidEnvironmentError


def policy_team(actor: Actor | None, environment: Environment) -> PolicyTeam:
    """Return a trained team.

    Raises InvalidEnvironmentError if it is no team for CAGE-4, or for what agents see there now.
    """
    if not isinstance(actor, TeamPolicy):
        raise InvalidEnvironmentError("env", "the agent is no team for CAGE-4")
    if actor.parameters.layout != environment.spaces().team:
        raise InvalidEnvironmentError(
            "env",
            "the team does not fit what agents see and do in CAGE-4 now, as one of an earlier "
            "version of the package: train it anew",
        )
    args = environment.args
    return PolicyTeam(actor, args["observation"], args["actions"], args["messages"])
