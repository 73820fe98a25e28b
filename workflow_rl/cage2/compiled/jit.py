"""Compile the simulator, and define instructions that only compiled code has."""

from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from workflow_rl.cage2.compiled.tables import CAPACITIES, tables_dtype
from workflow_rl.jit import announce_compiling, compiled, entry_points

__all__ = [
    "announce_compiling",
    "compiled",
    "entry_point",
    "first_word",
    "int64",
    "prefetch",
    "tables_at",
]

int64: Any = np.int64
"""A signed integer of 64 bits. numba's `int(x)` keeps the type of x, even if x is unsigned."""
_HERE = Path(__file__).parent
_TABLES = [
    _HERE.parent / f"{name}.py"
    for name in ("scenario/actions", "b_line_plan", "costs", "scenario2")
]
entry_point = entry_points(_HERE, *_TABLES)


def _prefetch(_typing_context: Any, records: Any, index: Any, offset: Any) -> Any:
    """Let the processor fetch byte `offset` of `records[index]` without waiting for the byte."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(array.strides, 0)
        at = builder.add(builder.mul(arguments[1], stride), arguments[2])
        pointer = ir.IntType(8).as_pointer()
        address = builder.gep(builder.bitcast(array.data, pointer), [at])
        flag = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], function_type)
        # The flags of llvm.prefetch mean: prepare for a write, keep in all caches, fetch data.
        builder.call(function, [address, flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.none(records, types.int64, types.int64), generate


prefetch: Any = intrinsic(_prefetch)


def _first_word(_typing_context: Any, records: Any) -> Any:
    """Return the offset of the random generator's words in a record, in bytes."""
    offset = records.dtype.offset("mt")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant(types.int64, offset)

    return types.int64(records), generate


first_word: Any = intrinsic(_first_word)


def _tables_at(_typing_context: Any, records: Any, networks: Any, index: Any) -> Any:
    """Return the record of tables in row `index` of networks, uint8 `[K, bytes]`.

    The number of hosts in `records` tells the capacity of the tables. Python passes tables as
    bytes, because a second array of records would slow each call by a sixth of a step's time."""
    hosts = records.dtype.typeof("n_red_sessions").shape[0]
    capacity = next(capacity for capacity in CAPACITIES if capacity.hosts == hosts)
    record = from_dtype(tables_dtype(capacity))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[1])(context, builder, arguments[1])
        offset = builder.mul(arguments[2], builder.extract_value(array.strides, 0))
        return builder.bitcast(builder.gep(array.data, [offset]), context.get_value_type(record))

    return record(records, networks, types.int64), generate


tables_at: Any = intrinsic(_tables_at)
