"""Copies of the modules that act, for folders that are handed in to a challenge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from agents import trajectory

# In a wheel, `agents` is a part of `workflow_rl`: see setup.py.
_ROOTS = {"agents": Path(trajectory.__file__).parent, "workflow_rl": Path(__file__).parents[1]}
_ROOMS = re.compile(
    r"^( *from )(?:(?:workflow_rl\.)?agents(?:\.policies)?"
    r"|workflow_rl\.\w+(?:\.agent|\.compiled)?)(\.\w+)? import",
    re.M,
)

NUMPY_POLICY = (
    "agents.policies.archive",
    "agents.policies.distributions",
    "agents.policies.entities",
    "agents.policies.entity_layout",
    "agents.policies.masks",
    "agents.policies.mlp",
    "agents.policies.network",
    "agents.policies.networks",
    "agents.policies.numpy_policy",
    "agents.policies.policy_file",
    "agents.policies.recurrent",
    "agents.policies.stacked_frames",
)
"""What a policy needs to be read from a file and to act."""


def write_acting(modules: Sequence[str], folder: Path) -> Path:
    """Copy modules into the package `acting` of a folder, and return the package's folder.

    The copies import each other from `acting`. No two modules may have one name.
    """
    acting = folder / "acting"
    acting.mkdir(parents=True, exist_ok=True)
    (acting / "__init__.py").write_text('"""What acts: modules of workflow_rl."""\n')
    for module in modules:
        root, *path = module.split(".")
        source = _ROOTS[root].joinpath(*path).with_suffix(".py").read_text()
        (acting / f"{path[-1]}.py").write_text(_ROOMS.sub(r"\1acting\2 import", source))
    return acting
