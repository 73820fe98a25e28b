"""Copies of the modules that act, for folders that are handed in to a challenge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from workflow_rl.runs.handed_in import LIST

_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(
    r"^( *)from workflow_rl\.(?:(errors) import|\w+(?:\.policies|\.agent|\.compiled)?"
    r"(?:\.(\w+) import|( import \w+(?:, \w+)*$)))",
    re.M,
)

NUMPY_POLICY = (
    "workflow_rl.agents.policies.archive",
    "workflow_rl.agents.policies.distributions",
    "workflow_rl.agents.policies.entities",
    "workflow_rl.agents.policies.entity_layout",
    "workflow_rl.agents.policies.masks",
    "workflow_rl.agents.policies.mlp",
    "workflow_rl.agents.policies.network",
    "workflow_rl.agents.policies.networks",
    "workflow_rl.agents.policies.numpy_policy",
    "workflow_rl.agents.policies.policy_file",
    "workflow_rl.agents.policies.recurrent",
    "workflow_rl.agents.policies.stacked_frames",
)
"""What a policy needs to be read from a file and to act."""
ACTING = "acting_"
"""How the names of the copies begin."""


def write_acting(modules: Sequence[str], folder: Path) -> None:
    """Copy modules into a new folder: `acting_x.py` is the copy of the module x.

    The copies import each other. No two modules may have one name. All lie in the folder itself,
    because CAGE-4 tells to pack with `zip`, which leaves folders empty.
    """
    folder.mkdir(parents=True)
    for module in (*modules, "workflow_rl.runs.handed_in"):
        _, *path = module.split(".")
        source = _PACKAGE.joinpath(*path).with_suffix(".py").read_text()
        (folder / f"{ACTING}{path[-1]}.py").write_text(_IMPORT.sub(_flat, source))


def _flat(statement: re.Match[str]) -> str:
    indent, errors, module, names = statement.groups()
    if errors or module:
        return f"{indent}from {ACTING}{errors or module} import"
    return indent + re.sub(r"(?<= )(?!import\b)(\w+)", rf"{ACTING}\1 as \1", names.strip())


def list_files(folder: Path) -> None:
    """Write the digests of the copies and of the weights, once all are there, as `sha256sum`
    does."""
    files = sorted([*folder.glob(f"{ACTING}*"), *folder.glob("*.npz")])
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    (folder / LIST).write_text("\n".join(lines) + "\n")
