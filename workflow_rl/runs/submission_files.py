"""Folders that are handed in to a challenge: an agent, and copies of the modules that act."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.agents.policies.team_policy import TeamParameters, save_team
from workflow_rl.runs.handed_in import LIST

_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(
    r"^( *)from workflow_rl\.(?:(errors) import|\w+(?:\.policies|\.agent|\.compiled|\.scenario)?"
    r"(?:\.(\w+) import|( import \w+(?:, \w+)*$)))",
    re.M,
)

_NETWORKS = "workflow_rl.agents.policies.networks"
_ONNX_NETWORKS, _HANDED_IN = "workflow_rl.runs.onnx_networks", "workflow_rl.runs.handed_in"
NUMPY_POLICY = (
    "workflow_rl.agents.policies.convolutional",
    "workflow_rl.agents.policies.distributions",
    "workflow_rl.agents.policies.entities",
    "workflow_rl.agents.policies.entity_layout",
    "workflow_rl.agents.policies.further_distributions",
    "workflow_rl.agents.policies.mlp",
    "workflow_rl.agents.policies.network",
    _NETWORKS,
    "workflow_rl.agents.policies.numpy_policy",
    "workflow_rl.agents.policies.policy_file",
    "workflow_rl.agents.policies.recurrent",
    "workflow_rl.errors",
)
"""What a policy needs to be read from a file and to act."""
ACTING = "acting_"
"""How the names of the copies begin."""


def members_of(exported: Any) -> list[PolicyParameters]:
    """Return the policies of what is exported: of a team several, of a scripted agent none."""
    if isinstance(exported, PolicyParameters):
        return [exported]
    return [*getattr(exported, "parameters", {}).values()]


def needs_of(exported: Any) -> str:
    """Return lines for a requirements.txt: what acts with the networks, beside NumPy."""
    needs = {member.described().needs for member in members_of(exported)}
    return "".join(f"{package}\n" for package in needs if package)


def write_handed_in(
    folder: Path,
    exported: Any,
    about: Mapping[str, Any],
    weights: str,
    modules: Sequence[str],
    files: Mapping[str, Path | str],
) -> None:
    """Fill a new folder with what an agent needs to act, and with the challenge's own files.

    Args:
        exported: what is to act. A policy or a team is saved as the file `weights`, with `about`.
        modules: what acts, beside NUMPY_POLICY.
        files: by their names in the folder: files to copy, or texts.
    """
    _copy_modules((*NUMPY_POLICY, *modules), folder, exported)
    if isinstance(exported, PolicyParameters):
        save_policy(folder / weights, exported, about)
    elif isinstance(exported, TeamParameters):
        save_team(folder / weights, exported, about)
    for name, content in files.items():
        if isinstance(content, Path):
            shutil.copy(content, folder / name)
        else:
            (folder / name).write_text(content)
    _list_files(folder)


def _copy_modules(modules: Sequence[str], folder: Path, exported: Any) -> None:
    """Copy modules into a new folder: `acting_x.py` is the copy of the module x.

    The networks of what is exported decide which copies there are. The copies import each other.
    No two modules may have one name. All lie in the folder itself, because CAGE-4 tells to pack
    with `zip`, which leaves folders empty.
    """
    folder.mkdir(parents=True)
    names = {module: module.rpartition(".")[2] for module in (*modules, _HANDED_IN)}
    if any(member.described().needs for member in members_of(exported)):
        del names[_NETWORKS]
        names[_ONNX_NETWORKS] = _NETWORKS.rpartition(".")[2]
    for module, name in names.items():
        source = _PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text()
        (folder / f"{ACTING}{name}.py").write_text(_IMPORT.sub(_flat, source))


def _flat(statement: re.Match[str]) -> str:
    indent, errors, module, names = statement.groups()
    if errors or module:
        return f"{indent}from {ACTING}{errors or module} import"
    return indent + re.sub(r"(?<= )(?!import\b)(\w+)", rf"{ACTING}\1 as \1", names.strip())


def _list_files(folder: Path) -> None:
    """Write the digests of the copies and of the weights, as `sha256sum` does."""
    files = sorted([*folder.glob(f"{ACTING}*"), *folder.glob("*.npz"), *folder.glob("*.json")])
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    (folder / LIST).write_text("\n".join(lines) + "\n")
