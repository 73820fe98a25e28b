"""How the simulator is compiled, and what only its compiled code does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from workflow_rl.jit import announce_compiling, compiled, entry_points

__all__ = ["announce_compiling", "compiled", "entry_point", "prefetch"]

_HERE = Path(__file__).parent
entry_point = entry_points(_HERE, _HERE.parent / "scenario2.py")


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
