"""Instructions that Numba has no name for: the bits of a float, trailing zeros, prefetch, and memory at an address."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# mypy sees these as plain functions: the decorator is untyped, and so are Numba's contexts and builders.


@intrinsic
def float_of_bits(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def bits_of_float(typing: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def trailing_zeros(typing: Any, mask: Any) -> Any:
    """Of a 32-bit mask that is not zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.zext(zeros, ir.IntType(64))

    return types.int64(types.uint32), generate


@intrinsic
def prefetch(typing: Any, array: Any, position: Any) -> Any:
    """Asks for the cache line of `array[position]`; never faults, whatever the position."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        data = context.make_array(array_type)(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]])
        pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        place = builder.bitcast(place, pointer)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        )
        # read, keep in all levels, data
        builder.call(function, [place, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _load(numba_type: Any, bits: int) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return value

        return numba_type(types.int64), generate

    return load


# The value at an address: Arrow's buffers are handed over as addresses, so that one kernel reads columns of every type.
load_u8 = _load(types.uint8, 8)
load_i32 = _load(types.int32, 32)
load_i64 = _load(types.int64, 64)
