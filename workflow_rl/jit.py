"""How the guests' simulators are compiled."""

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event, types

from workflow_rl.errors import UserError
from workflow_rl.life import compiling
from workflow_rl.output_files import private_folder

# In the current folder, a stranger's file could name a folder of pickles, and modules to import.
numba.config._config_fname = os.devnull
numba.config.reload_config()
if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    raise UserError("NUMBA_DISABLE_JIT is set, and simulators have to be compiled: unset it")
Function = TypeVar("Function", bound=Callable[..., Any])
OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
INNER: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""A function that only compiled code calls needs no door for Python: half of the work."""


class _Compilations(event.Listener):
    def on_start(self, event: event.Event) -> None:
        compiling(1)

    def on_end(self, event: event.Event) -> None:
        compiling(-1)


event.register("numba:compile", _Compilations())


def digest(files: Iterable[Path]) -> str:
    content = hashlib.sha256()
    for path in sorted(files):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()


def compiled(function: Function) -> Function:
    """Compile a function on first use, as a part of the entry point that calls the function."""
    dispatcher: Any = numba.njit(**OPTIONS, **INNER)(function)
    template_of = dispatcher.get_call_template

    def without_literals(arguments: Any, names: Any) -> Any:
        """Numba would compile a function once more for each number that it is called with."""
        return template_of(tuple(types.unliteral(argument) for argument in arguments), names)

    dispatcher.get_call_template = without_literals
    return cast(Function, dispatcher)


def entry_points(folder: Path, *tables: Path) -> Callable[[Function], Function]:
    """Return a decorator that compiles a function on first use, and keeps the result on disk with
    all that the function calls.

    folder, tables: the modules, and further files, that the functions follow from.
    """
    # numba compiles again after a change in the function's own file alone. Without this stamp, a
    # change in the file of a callee would leave the old simulator in use.
    stamp = digest([Path(__file__), *folder.glob("*.py"), *tables])

    def entry_point(function: Function) -> Function:
        compiler: Any = numba.njit(cache=True, **OPTIONS)
        try:
            dispatcher = compiler(function)
        except RuntimeError:  # numba knows no folder that it can write.
            os.environ["NUMBA_CACHE_DIR"] = str(private_folder())
            numba.config.reload_config()
            dispatcher = compiler(function)
        dispatcher._cache._cache_file._source_stamp = stamp
        return cast(Function, dispatcher)

    return entry_point


@functools.cache
def announce_compiling(
    what: str, seconds: str, functions: tuple[Callable[..., Any], ...], records: np.dtype[Any]
) -> None:
    """Say that entry points will be compiled, unless they are on disk for such first arguments. The
    cache asks once a process, because finding out takes longer than a thousand steps."""
    of_them = numba.typeof(np.zeros(1, records))
    for function in functions:
        signatures = cast(Any, function)._cache._cache_file._load_index()
        if all(signature[0] != of_them for signature, *_ in signatures):
            print(
                f"Compiling {what}: about {seconds} of an idle core, only this once.",
                file=sys.stderr,
            )
            return
