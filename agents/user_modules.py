"""Modules that the user names. They may lie in the current folder."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from workflow_rl.errors import ElsewhereError

MOST_OF_TEXT = 500
"""Characters of an exception's text that one line shows."""


def imported(module: str) -> ModuleType:
    """Import a module that the user has named. Raises what the module raises."""
    here = os.getcwd()
    if place_of(module, [here, *sys.path]) != place_of(module, sys.path):
        # An installed command does not search the folder in which it is called. Only a module of
        # that folder needs the search: an installed module would import its own modules from here.
        sys.path.insert(0, here)
    return importlib.import_module(module)


def attribute_named(name: str) -> Any:
    """Return what "module:Name" names, which the user has typed.

    Raises ValueError, which says what is wrong and what would be right.
    """
    refuse_a_file(name)
    module_name, _, attribute = name.partition(":")
    try:
        module = imported(module_name)
    except Exception as error:
        hint = where_to_call(module_name, error)
        raise ValueError(f"{name} cannot be imported: {in_one_line(error)}{hint}") from error
    if not hasattr(module, attribute):
        meant = name_meant(module, attribute)
        raise ValueError(f"{name}: {module_name} defines no {attribute}{meant}")
    return getattr(module, attribute)


def is_found_as(name: str, thing: object) -> bool:
    """Whether "module:Name" finds this function or class, in a module that has been imported.

    A module's own `__getattr__` is not called: it may import what the name says.
    """
    module, _, attribute = name.partition(":")
    return getattr(sys.modules.get(module), "__dict__", {}).get(attribute) is thing


def refuse_a_file(name: str) -> None:
    """Raise ValueError, which says what would be right, if "module:Name" has a path as module."""
    module, _, attribute = name.partition(":")
    file = Path(module)
    if file.suffix == ".py" or os.path.basename(module) != module:
        raise ValueError(
            f"{name} names a file: give {file.stem}:{attribute}, in the folder of {file.stem}.py"
        )


def where_to_call(module: str, error: Exception) -> str:
    """Return a sentence about a module that is missing, or nothing for another error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return ""
    if not f"{module}.".startswith(f"{error.name}."):
        return ""
    return f". Call the command in the folder of {error.name}, or install that module"


def name_meant(module: ModuleType, name: str) -> str:
    """Return a question about a module's function or class with nearly this name, if it has one."""
    from difflib import get_close_matches  # Only an error needs it.

    defined = [defined_name for defined_name, value in vars(module).items() if callable(value)]
    meant = get_close_matches(name, defined, 1)
    return f". Did you mean {module.__name__}:{meant[0]}?" if meant else ""


def text_of(error: BaseException) -> str:
    """Return an error's message, also if the error's own code fails to give it."""
    try:
        return str(error)
    except Exception as problem:
        return f"its text raises {type(problem).__name__}"


def in_one_line(error: BaseException) -> str:
    """Return an error's type, the first line of its message, and the file and line of the user's
    code that raised the error, if the user's code did."""
    if isinstance(error, ElsewhereError):
        return str(error)
    lines = text_of(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0][:MOST_OF_TEXT]}" if lines else type(error).__name__
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        if not file.startswith((*_not_the_users(), "<")):
            here = os.getcwd() + os.sep
            return f"{what} ({file.removeprefix(here)}, line {number})"
    return what


@functools.cache
def _not_the_users() -> tuple[str, ...]:
    """The folders of the standard library, of libraries that call the user's code, and of this
    package."""
    files = [contextlib.__file__, __file__]
    for name in ("gymnasium", "numpy", "torch", "workflow_rl"):
        if (spec := importlib.util.find_spec(name)) is not None and spec.origin is not None:
            files.append(spec.origin)
    return tuple(str(Path(file).parent) + os.sep for file in files)


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
        others = [finder for finder in sys.meta_path if finder is not PathFinder]
        specs = (
            finder.find_spec(package, None) for finder in others if hasattr(finder, "find_spec")
        )
        spec = next(filter(None, specs), None)
    if spec is None:
        return None
    return os.path.abspath(spec.origin or next(iter(spec.submodule_search_locations or ("",))))
