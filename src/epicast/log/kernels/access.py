"""Memory by address: what numba's arrays do not offer, and what they are too slow for.

Columns of a batch lie wherever the network or a file put them, so words are read without regard to
alignment. And an array that is handed to a part of a kernel is counted, with an atomic operation,
for every row; an address is a number. Nothing here checks bounds: a kernel checks a batch's sizes
once, before it reads rows.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE = ir.IntType(8)
_ADDRESS = ir.IntType(64)


def _make_load(result: Any, bits: int) -> Any:
    word = ir.IntType(bits)

    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], word.as_pointer()), align=1)

        return result(types.intp), generate

    return intrinsic(load)


def _make_store(kind: Any, bits: int) -> Any:
    word = ir.IntType(bits)

    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[1], builder.inttoptr(args[0], word.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.intp, kind), generate

    return intrinsic(store)


def _address_of(typing: Any, array: Any) -> Any:
    """Where the first element is. Good as long as the kernel's caller has the array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, _ADDRESS)

    return types.intp(array), generate


def _prefetch(typing: Any, address: Any) -> Any:
    """Ask for the cache line of an address, to be changed soon; any address is harmless."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _BYTE.as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        for_writing, keep, data = (ir.Constant(number, value) for value in (1, 3, 1))
        builder.call(function, [pointer, for_writing, keep, data])
        return context.get_dummy_value()

    return types.void(types.intp), generate


word_at: Any = _make_load(types.uint64, 64)
half_at: Any = _make_load(types.uint32, 32)
quarter_at: Any = _make_load(types.uint16, 16)
byte_at: Any = _make_load(types.uint8, 8)
put_word: Any = _make_store(types.uint64, 64)
put_half: Any = _make_store(types.uint32, 32)
put_quarter: Any = _make_store(types.uint16, 16)
put_byte: Any = _make_store(types.uint8, 8)
address_of: Any = intrinsic(_address_of)
prefetch: Any = intrinsic(_prefetch)
