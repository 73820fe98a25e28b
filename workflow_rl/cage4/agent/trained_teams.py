"""Trained teams: the package's own teams, and teams that users trained.

Functions import what they need, because the command line reads RELEASED without NumPy."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import Actor
    from workflow_rl.cage4.agent.blue_team import TeamMaker
    from workflow_rl.cage4.agent.policy_team import PolicyTeam
    from workflow_rl.environments.environment import Environment

RELEASED = {
    name: Path(__file__).parent / "released" / f"{name}.npz" for name in ("champion", "steadfast")
}
"""The policy files of the package's own teams, by name."""


def released_team(name: str, n_envs: int = 1) -> PolicyTeam:
    """Return a released team. Its policies choose their most likely actions."""
    from workflow_rl.agents.policies.team_policy import TeamParameters, load_policy_or_team
    from workflow_rl.cage4.agent.policy_team import PolicyTeam

    team, about = load_policy_or_team(RELEASED[name])
    assert isinstance(team, TeamParameters)
    args = about["env_args"]
    return PolicyTeam(n_envs, team.player(), args["observation"], args["actions"], args["messages"])


def trained_team(actor: Actor | None, environment: Environment) -> TeamMaker:
    """Return a maker of teams that play with `actor`.

    Raises ConfigError if `actor` is no team, or its layout differs from the environment's layout.
    """
    from workflow_rl.agents.policies.team_policy import TeamPolicy
    from workflow_rl.cage4.agent.policy_team import PolicyTeam
    from workflow_rl.errors import ConfigError

    if not isinstance(actor, TeamPolicy):
        raise ConfigError("env", "the agent is no team for CAGE-4")
    if actor.parameters.layout != environment.spaces().team:
        raise ConfigError(
            "env",
            "the team was trained with other observations or actions than CAGE-4 has now, as in an "
            "earlier version of the package: train the team again",
        )
    args = environment.args
    shown = {name: args[name] for name in ("observation", "actions", "messages")}
    return functools.partial(PolicyTeam, policy=actor, **shown)
