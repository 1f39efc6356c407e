"""Words at any address, and a hint to the processor: what numba's arrays do not offer.

Columns of a batch lie wherever the network or a file put them, so words are read without regard to
alignment. Nothing here checks bounds: a kernel checks a batch's sizes once, before it reads rows.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE = ir.IntType(8)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _BYTE.as_pointer()), [index])


def _make_load(result: Any, bits: int) -> Any:
    word = ir.IntType(bits)

    def load(typing: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
            return builder.load(builder.bitcast(pointer, word.as_pointer()), align=1)

        return result(array, types.intp), generate

    return intrinsic(load)


def _store64(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write eight bytes at a byte position of a byte array."""
    word = ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], builder.bitcast(pointer, word.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64), generate


def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line that holds an element, to be changed soon; any index is harmless."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type = signature.args[0]
        width = ir.Constant(ir.IntType(64), array_type.dtype.bitwidth // 8)
        pointer = _pointer(context, builder, array_type, args[0], builder.mul(args[1], width))
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        for_writing, keep, data = (ir.Constant(number, value) for value in (1, 3, 1))
        builder.call(function, [pointer, for_writing, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


load64: Any = _make_load(types.uint64, 64)
load32: Any = _make_load(types.uint32, 32)
store64: Any = intrinsic(_store64)
prefetch: Any = intrinsic(_prefetch)
