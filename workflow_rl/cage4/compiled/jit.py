"""How the simulator is compiled."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

# In compiled code, `int` of an unsigned number is an unsigned 64-bit number, whose sum with another
# number is a float.
int64: Any = np.int64
Function = TypeVar("Function", bound=Callable[..., Any])


def _digest() -> str:
    content = hashlib.sha256()
    here = Path(__file__).parent
    tables = (here.parent / "interface.py", here.parent / "scenario4.py")
    for path in (*sorted(here.glob("*.py")), *tables):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()


SOURCES = _digest()


def compiled(function: Function) -> Function:
    """Compile a function on first use, as a part of the entry point that calls the function."""
    # Called from compiled code alone, a function needs no door for Python: half of the work.
    options: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    template_of = dispatcher.get_call_template

    def without_literals(arguments: Any, names: Any) -> Any:
        """Numba would compile a function once more for each number that it is called with."""
        return template_of(tuple(types.unliteral(each) for each in arguments), names)

    dispatcher.get_call_template = without_literals
    return cast(Function, dispatcher)


def entry_point(function: Function) -> Function:
    """Compile a function on first use, and keep the result on disk with all that it calls."""
    dispatcher: Any = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    # numba compiles again after a change in the function's own file alone. Without this stamp, a
    # change in the file of a callee would leave the old simulator in use.
    dispatcher._cache._cache_file._source_stamp = SOURCES
    return cast(Function, dispatcher)


def is_on_disk(function: Callable[..., Any], records: np.ndarray[Any, Any]) -> bool:
    """Return whether an entry point is on disk, compiled for such records as first argument."""
    cache_file = cast(Any, function)._cache._cache_file
    of_them = numba.typeof(records)
    return any(signature[0] == of_them for signature, *_ in cache_file._load_index())


@functools.cache
def announce_compiling(
    what: str, seconds: str, functions: tuple[Callable[..., Any], ...], records: np.dtype[Any]
) -> None:
    """Say that the functions will be compiled, unless they are on disk.

    The cache asks once a process, because finding out takes longer than a thousand steps.
    """
    if not all(is_on_disk(function, np.zeros(1, records)) for function in functions):
        print(f"Compiling {what}: about {seconds}, only this once.", file=sys.stderr)


def _multiply_add(
    _typing_context: Any,
    high: Any,
    low: Any,
    factor_high: Any,
    factor_low: Any,
    addend_high: Any,
    addend_low: Any,
) -> Any:
    """Return (high, low) of `value * factor + addend` modulo 2**128, all of them uint64 halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)

        def join(upper: Any, lower: Any) -> Any:
            shifted = builder.shl(builder.zext(upper, wide), wide(64))
            return builder.or_(shifted, builder.zext(lower, wide))

        value, factor, addend = (join(*arguments[i : i + 2]) for i in (0, 2, 4))
        result = builder.add(builder.mul(value, factor), addend)
        upper = builder.trunc(builder.lshr(result, wide(64)), ir.IntType(64))
        lower = builder.trunc(result, ir.IntType(64))
        return context.make_tuple(builder, signature.return_type, (upper, lower))

    return types.UniTuple(types.uint64, 2)(*[types.uint64] * 6), generate


multiply_add: Any = intrinsic(_multiply_add)
