"""What this and other packages bring by entry point, listed without importing any of it.

The groups are `workflow_rl.guests`, `.presets`, `.released`, `.commands`, `.algorithms`, and for
Gymnasium `.gymnasium` and `.gymnasium_vector`. See "Bring your own challenge" in the pages.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PACKAGE = "workflow-rl"
_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


@functools.cache
def plug_ins(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name: this package's first, in their order."""
    from importlib.metadata import EntryPoint

    group = f"workflow_rl.{group}"
    declared = _of_checkout()
    value_of = {} if declared is None else declared.get(group, {})
    brought = {name: EntryPoint(name, value, group) for name, value in value_of.items()}
    others = {}
    for point in _installed():
        if point.group != group:
            continue
        if point.dist is None or point.dist.name != PACKAGE:
            others[point.name] = point
        elif declared is None:
            brought[point.name] = point
    return brought | {name: point for name, point in others.items() if name not in brought}


@functools.cache
def _installed() -> Sequence[EntryPoint]:
    """Return the entry points of all installed distributions that bring any to this package."""
    from importlib.metadata import distributions  # It takes a while to import.

    return [
        point
        for distribution in distributions()
        # Reading a file is quick, parsing all of them is not.
        if "[workflow_rl." in (distribution.read_text("entry_points.txt") or "")
        for point in distribution.entry_points
    ]


@functools.cache
def _of_checkout() -> Mapping[str, Mapping[str, str]] | None:
    """Return the entry points that the checkout declares, by group: it may be newer than its
    installation, or have none. None if this is no checkout."""
    import tomllib

    try:
        project = tomllib.loads(_PYPROJECT.read_text())["project"]
        declared: Mapping[str, Mapping[str, str]] = project["entry-points"]
        return declared if project["name"] == PACKAGE else None
    except (OSError, ValueError, LookupError, TypeError):
        return None  # Somebody else's file may lie beside an installed package.
