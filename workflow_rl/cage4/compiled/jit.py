"""How CAGE-4's simulator is compiled, and an operation on 128 bits that numba lacks."""

from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from workflow_rl.jit import announce_compiling, compiled, entry_points

__all__ = [
    "announce_compiling",
    "compiled",
    "entry_point",
    "int64",
    "multiply_add",
]

# In compiled code, `int` of an unsigned number gives an unsigned 64-bit number. The sum of an
# unsigned and a signed number is a float. So compiled code calls `int64` instead.
int64: Any = np.int64
_GUEST = Path(__file__).parents[1]
_TABLES = (
    *_GUEST.glob("scenario/*.py"),
    _GUEST / "agent" / "raw_record.py",
    _GUEST / "red" / "red_api.py",
)
entry_point = entry_points(Path(__file__).parent, *_TABLES)


def _multiply_add(
    _typing_context: Any,
    high: Any,
    low: Any,
    factor_high: Any,
    factor_low: Any,
    addend_high: Any,
    addend_low: Any,
) -> Any:
    """Return `value * factor + addend` modulo 2**128 as (high, low). Each number is two uint64
    halves. The value's halves are `high` and `low`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)

        def join(upper: Any, lower: Any) -> Any:
            shifted = builder.shl(builder.zext(upper, wide), wide(64))
            return builder.or_(shifted, builder.zext(lower, wide))

        value = join(*arguments[0:2])
        factor = join(*arguments[2:4])
        addend = join(*arguments[4:6])
        result = builder.add(builder.mul(value, factor), addend)
        upper = builder.trunc(builder.lshr(result, wide(64)), ir.IntType(64))
        lower = builder.trunc(result, ir.IntType(64))
        return context.make_tuple(builder, signature.return_type, (upper, lower))

    return types.UniTuple(types.uint64, 2)(*[types.uint64] * 6), generate


multiply_add: Any = intrinsic(_multiply_add)
