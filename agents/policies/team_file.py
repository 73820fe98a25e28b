"""Policy files of teams: the members of a team in one file of plain arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import (
    load_file,
    packed,
    save_file,
    unpacked,
)
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.agents.team import team_layout
from workflow_rl.errors import UserError


def save_team(file: Path | IO[bytes], team: TeamParameters, about: Mapping[str, Any]) -> None:
    """Write a team as a sealed .npz file: see `policy_file.save_policy`."""
    members: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for n, (name, policy) in enumerate(team.parameters.items()):
        members[name], of_member = packed(policy)
        arrays |= {f"{n}_{array}": values for array, values in of_member.items()}
    policies = {name: list(of) for name, of in team.policies.items()}
    settings = {"team": team.layout.to_plain(), "policies": policies, "members": members}
    save_file(file, settings, arrays, about)


def load_policy_or_team(
    path: str | os.PathLike[str], content: bytes | None = None
) -> tuple[PolicyParameters | TeamParameters, dict[str, Any]]:
    """Return the policy or the team of a file: see `policy_file.load_policy`."""
    return load_file(path, _parsed, content)


def _parsed(settings: dict[str, Any], arrays: dict[str, Any]) -> PolicyParameters | TeamParameters:
    if "team" not in settings:
        return unpacked(settings, arrays)
    members: dict[str, PolicyParameters] = {}
    n_arrays = 0
    for n, (name, member) in enumerate(settings["members"].items()):
        of_member = {
            array.removeprefix(f"{n}_"): values
            for array, values in arrays.items()
            if array.startswith(f"{n}_")
        }
        members[name] = unpacked(member, of_member)
        n_arrays += len(of_member)
    policies = {name: tuple(of) for name, of in settings["policies"].items()}
    team = TeamParameters(team_layout(settings["team"]), policies, members)
    if n_arrays != len(arrays) or not team.fits():
        raise UserError("its members are of another team")
    return team
