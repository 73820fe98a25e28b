"""What this and other packages bring by entry point, listed without importing any of it.

The groups are `workflow_rl.guests`, `.default_env`, `.presets`, `.released`, `.commands`,
`.algorithms`, and for Gymnasium `.gymnasium` and `.gymnasium_vector`. See "Bring your own
challenge" in the pages.
"""

from __future__ import annotations

import functools
import glob
import importlib
import operator
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = "workflow-rl"
_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


class PlugIn(NamedTuple):
    """An entry point of a group. value: "module:attribute", which extras such as "[gpu]" may
    follow. package: what brings it."""

    group: str
    name: str
    value: str
    package: str

    @property
    def module(self) -> str:
        return self.value.partition("[")[0].partition(":")[0].strip()

    @property
    def attribute(self) -> str:
        return self.value.partition("[")[0].partition(":")[2].strip()

    def load(self) -> Any:
        """Import the module and return the attribute. Raises what the module raises."""
        return operator.attrgetter(self.attribute)(importlib.import_module(self.module))


@functools.cache
def plug_ins(group: str) -> Mapping[str, PlugIn]:
    """Return the entry points of a group by name: this package's first, in their order."""
    group, declared = f"workflow_rl.{group}", _of_checkout()
    brought = [plug_in for plug_in in _installed() if plug_in.group == group]
    ours = [plug_in for plug_in in brought if plug_in.package == PACKAGE]
    if declared is not None:
        ours = [PlugIn(group, *named, PACKAGE) for named in declared.get(group, {}).items()]
    found: dict[str, PlugIn] = {}
    for plug_in in (*ours, *(plug_in for plug_in in brought if plug_in.package != PACKAGE)):
        found.setdefault(plug_in.name, plug_in)
    return found


@functools.cache
def _installed() -> Sequence[PlugIn]:
    """Return the entry points of all installed packages.

    `importlib.metadata` knows them too, but takes a sixth of the time of --help to import.
    """
    found, packages = [], set()
    for folder in sys.path:
        for file in glob.glob(os.path.join(glob.escape(folder), "*-info", "entry_points.txt")):
            stem = os.path.basename(os.path.dirname(file)).rpartition(".")[0]
            package = stem.partition("-")[0].replace("_", "-")
            if package in packages:
                continue  # The first on the path is the one that is imported.
            packages.add(package)
            group = ""
            with suppress(OSError, UnicodeError):
                for line in map(str.strip, Path(file).read_text("utf-8").splitlines()):
                    name, is_point, value = line.partition("=")
                    if line.startswith("["):
                        group = line.strip("[] ")
                    elif is_point and not line.startswith("#"):
                        found.append(PlugIn(group, name.strip(), value.strip(), package))
    return found


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
