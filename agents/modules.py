"""Modules that the user names. They may lie in the current folder."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from types import ModuleType


def imported(module: str) -> ModuleType:
    """Import a module that the user has named. Raises what the module raises."""
    here = os.getcwd()
    if place_of(module, [here, *sys.path]) != place_of(module, sys.path):
        # An installed command does not search the folder in which it is called. Only a module of
        # that folder needs the search: an installed module would import its own modules from here.
        sys.path.insert(0, here)
    return importlib.import_module(module)


def place_of(module: str, path: Sequence[str]) -> str | None:
    """Return the file or folder that a module's outermost package would be imported from, or None.

    Import nothing. Do not resolve links: the other files beside a link would be imported too.
    path: the folders to search, as in `sys.path`.
    """
    package = module.partition(".")[0]
    if package in sys.builtin_module_names:
        return "built-in"
    spec = PathFinder.find_spec(package, path)
    if spec is None:  # pip adds finders for packages that are installed as editable.
        others = [one for one in sys.meta_path if one is not PathFinder]
        specs = (one.find_spec(package, None) for one in others if hasattr(one, "find_spec"))
        spec = next(filter(None, specs), None)
    if spec is None:
        return None
    return os.path.abspath(spec.origin or next(iter(spec.submodule_search_locations or ("",))))
