"""List the entry points of this and other packages, without importing the named modules.

The groups are `workflow_rl.guests`, `.default_env`, `.presets`, `.released`, `.commands`,
`.algorithms`, and for Gymnasium `.gymnasium` and `.gymnasium_vector`. See "Bring your own
challenge" in the pages.
"""

import functools
import tomllib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


@functools.cache
def plug_ins(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name: this package's first, in their order."""
    group = f"workflow_rl.{group}"
    declared, brought = _of_checkout(), entry_points(group=group)
    ours = [point for point in brought if is_ours(point)]
    if declared is not None:
        named = declared.get(group, {}).items()
        ours = [EntryPoint(name, value, group) for name, value in named]
    found: dict[str, EntryPoint] = {}
    for point in (*ours, *(point for point in brought if not is_ours(point))):
        found.setdefault(point.name, point)
    return found


def is_ours(point: EntryPoint) -> bool:
    return point.module.startswith("workflow_rl.")


@functools.cache
def _of_checkout() -> Mapping[str, Mapping[str, str]] | None:
    """Return the entry points that the checkout declares, by group, or None without a checkout. The
    checkout may be newer than its installation, or may not be installed."""
    try:
        project = tomllib.loads(_PYPROJECT.read_text())["project"]
        declared: Mapping[str, Mapping[str, str]] = project["entry-points"]
        return declared if project["name"] == "workflow-rl" else None
    except (OSError, ValueError, LookupError, TypeError):
        return None  # Beside an installed package may be a file of a stranger.
