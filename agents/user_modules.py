"""Modules that the user names. They may be in the current folder."""

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
"""The most characters of an exception's text in one line."""


def imported(module: str) -> ModuleType:
    """Import a module that the user has named. Raises the errors of the module."""
    here = os.getcwd()
    if place_of(module, [here, *sys.path]) != place_of(module, sys.path):
        # An installed command does not search the current folder. The folder is added only for its
        # own modules, because installed modules would otherwise import their modules from it.
        sys.path.insert(0, here)
    return importlib.import_module(module)


def attribute_named(name: str) -> Any:
    """Import and return the object of "module:Name". The user must have typed the name.

    Raises ValueError with a reason and a correction.
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
    """Return whether "module:Name" is this function or class, if its module has been imported.

    A module's own `__getattr__` is not called, because it may import other modules.
    """
    module, _, attribute = name.partition(":")
    return getattr(sys.modules.get(module), "__dict__", {}).get(attribute) is thing


def refuse_a_file(name: str) -> None:
    """Raise ValueError with a correction if the module of "module:Name" is a path."""
    module, _, attribute = name.partition(":")
    file = Path(module)
    if file.suffix == ".py" or os.path.basename(module) != module:
        raise ValueError(
            f"{name} names a file: give {file.stem}:{attribute}, in the folder of {file.stem}.py"
        )


def where_to_call(module: str, error: Exception) -> str:
    """Return a sentence about a missing module, or an empty text for another error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return ""
    if not f"{module}.".startswith(f"{error.name}."):
        return ""
    return f". Call the command in the folder of {error.name}, or install that module"


def name_meant(module: ModuleType, name: str) -> str:
    """Return a question about a function or class with nearly this name, or an empty text."""
    from difflib import get_close_matches  # Only an error needs it.

    defined = [defined_name for defined_name, value in vars(module).items() if callable(value)]
    meant = get_close_matches(name, defined, 1)
    return f". Did you mean {module.__name__}:{meant[0]}?" if meant else ""


def text_of(error: BaseException) -> str:
    """Return an error's message. If the error's `__str__` raises an error, return a sentence."""
    try:
        return str(error)
    except Exception as problem:
        return f"its text raises {type(problem).__name__}"


def in_one_line(error: BaseException) -> str:
    """Return an error's type and the first line of its message. If the user's code raised it, add
    the file and the line."""
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

    Nothing is imported. Links are not resolved, because an import would use the files beside a
    link.
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
