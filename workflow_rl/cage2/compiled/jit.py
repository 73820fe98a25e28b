"""How the simulator is compiled."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def digest(files: Iterable[Path]) -> str:
    """Return a digest of files."""
    content = hashlib.sha256()
    for path in sorted(files):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()


_HERE = Path(__file__).parent
SOURCES = digest([*_HERE.glob("*.py"), _HERE.parent / "scenario2.py"])


def compiled(function: Function) -> Function:
    """Compile a function on first use, as a part of the entry point that calls the function."""
    return cast(Function, numba.njit(nogil=True)(function))


def entry_point(function: Function) -> Function:
    """Compile a function on first use, and keep the result on disk with all that it calls."""
    dispatcher: Any = numba.njit(nogil=True, cache=True)(function)
    # numba compiles again after a change in the function's own file alone. Without this stamp, a
    # change in the file of a callee would leave the old simulator in use.
    dispatcher._cache._cache_file._source_stamp = SOURCES
    return cast(Function, dispatcher)


@functools.cache
def announce_compiling(
    what: str, seconds: str, functions: tuple[Callable[..., Any], ...], records: np.dtype[Any]
) -> None:
    """Say that entry points will be compiled, unless they are on disk for such first arguments.

    The cache asks once a process, because finding out takes longer than a thousand steps.
    """
    of_them = numba.typeof(np.zeros(1, records))
    for function in functions:
        signatures = cast(Any, function)._cache._cache_file._load_index()
        if all(signature[0] != of_them for signature, *_ in signatures):
            print(f"Compiling {what}: about {seconds}, only this once.", file=sys.stderr)
            return


def _prefetch(_typing_context: Any, records: Any, index: Any, offset: Any) -> Any:
    """Have the processor fetch the byte `offset` of `records[index]`, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(array.strides, 0)
        at = builder.add(builder.mul(arguments[1], stride), arguments[2])
        pointer = ir.IntType(8).as_pointer()
        address = builder.gep(builder.bitcast(array.data, pointer), [at])
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        write, keep, of_memory = flag(1), flag(3), flag(1)
        builder.call(function, [address, write, keep, of_memory])
        return context.get_dummy_value()

    return types.none(records, types.int64, types.int64), generate


prefetch: Any = intrinsic(_prefetch)
