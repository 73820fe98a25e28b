"""What this and other packages bring by entry point, listed without importing any of it.

The groups are `workflow_rl.guests`, `.presets`, `.released`, `.commands`, `.algorithms`, and for
Gymnasium `.gymnasium` and `.gymnasium_vector`. See "Bring your own challenge" in the pages.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PACKAGE = "workflow-rl"
_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


@functools.cache
def plug_ins(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name: this package's first, in their order."""
    from importlib.metadata import entry_points  # It takes a while to import.

    own = _of_checkout(f"workflow_rl.{group}")
    others = {}
    for point in entry_points(group=f"workflow_rl.{group}"):
        if point.dist is None or point.dist.name != PACKAGE:
            others[point.name] = point
        elif not _PYPROJECT.exists():
            own[point.name] = point
    return own | {name: point for name, point in others.items() if name not in own}


def _of_checkout(group: str) -> dict[str, EntryPoint]:
    """Return what the checkout itself declares: it may be newer than its installation, or have
    none."""
    if not _PYPROJECT.exists():
        return {}
    import tomllib
    from importlib.metadata import EntryPoint

    declared = tomllib.loads(_PYPROJECT.read_text())["project"]["entry-points"]
    return {name: EntryPoint(name, value, group) for name, value in declared.get(group, {}).items()}
