"""One test of 32 lanes at once.

A triple is 96 bytes: the attribute cell of each of 32 lanes, the lowest code, and the width. A publication is a table of codes by cell,
64 bytes: cells 0-15 twice, then 16-31 twice, as a byte shuffle wants them. A lane passes a triple when `code - low <= width`, without
sign. Code 0 is an absent attribute, 1 to 254 are values; 255 never occurs.

    always true   low 0, width 255
    empty lane    low 255, width 0

The interval form takes two tables, the lowest and the highest code that a cell may have (absent: 255 and 0), and asks whether the two
ranges meet: for cells that several attributes of a publication share, for published ranges, and for relaxed semantics, where what is
absent may be anything (1 and 254).
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from pastforward.columns.kernel import kernel

U8 = npt.NDArray[np.uint8]

TRIPLE: Final = 96
TABLE: Final = 64
CELLS: Final = 32

_VECTOR: Final = ir.VectorType(ir.IntType(8), 32)


def _constant(value: int) -> ir.Constant:
    return ir.Constant(_VECTOR, [value & 255] * 32)


def _lookup(builder: Any, shuffle: Any, tables: tuple[Any, Any], cells: Any) -> Any:
    """Cells below 16 hit the first table, the others the second: a shuffle gives 0 where the index byte has its top bit set."""
    low = builder.call(shuffle, [tables[0], builder.add(cells, _constant(0x70))])
    high = builder.call(shuffle, [tables[1], builder.sub(cells, _constant(16))])
    return builder.or_(low, high)


def _vector_test(triples: int, interval: bool) -> Any:
    @intrinsic
    def test(typing: Any, lanes: Any, offset: Any, low: Any, high: Any, row: Any) -> Any:
        signature = types.uint32(lanes, types.int64, low, high, types.int64)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def data(position: int) -> Any:
                return context.make_array(signature.args[position])(context, builder, arguments[position]).data

            def load(pointer: Any, offset: Any, more: int) -> Any:
                place = builder.gep(pointer, [builder.add(offset, ir.Constant(ir.IntType(64), more))])
                value = builder.load(builder.bitcast(place, _VECTOR.as_pointer()))
                value.align = 1
                return value

            module = builder.module
            name = "llvm.x86.avx2.pshuf.b"
            shuffle = module.globals.get(name) or ir.Function(
                module, ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR]), name
            )
            block, lowest, highest = data(0), data(2), data(3)
            offset, row = arguments[1], arguments[4]
            high_tables = load(highest, row, 0), load(highest, row, 32)
            low_tables = (load(lowest, row, 0), load(lowest, row, 32)) if interval else None
            passed = None
            for k in range(triples):
                cells = load(block, offset, TRIPLE * k)
                first = load(block, offset, TRIPLE * k + 32)
                width = load(block, offset, TRIPLE * k + 64)
                code = _lookup(builder, shuffle, high_tables, cells)
                if low_tables is None:
                    hit = builder.icmp_unsigned("<=", builder.sub(code, first), width)
                else:
                    lower = _lookup(builder, shuffle, low_tables, cells)
                    below = builder.icmp_unsigned("<=", first, code)
                    above = builder.icmp_unsigned("<=", lower, builder.add(first, width))
                    hit = builder.and_(below, above)
                passed = hit if passed is None else builder.and_(passed, hit)
            return builder.bitcast(passed, ir.IntType(32))

        return signature, generate

    return test


def _plain_test(triples: int, interval: bool) -> Any:
    """The same without vector instructions."""

    @kernel
    def test(lanes: U8, offset: int, low: U8, high: U8, row: int) -> Any:
        passed = np.uint32(0)
        for lane in range(32):
            ok = True
            for k in range(triples):
                at = offset + TRIPLE * k + lane
                cell = np.int64(lanes[at])
                # cells from 16 on are in the second half of a table, after the copy of the first 16
                place = row + cell + (16 if cell >= 16 else 0)
                first = lanes[at + 32]
                width = lanes[at + 64]
                code = high[place]
                if interval:
                    ok = ok and first <= code and low[place] <= np.uint8(first + width)
                else:
                    ok = ok and np.uint8(code - first) <= width
            if ok:
                passed |= np.uint32(1) << np.uint32(lane)
        return passed

    return test


def has_avx2() -> bool:
    """Of the machine that Numba compiles for, which its settings may make less than the one it runs on."""
    features = config.CPU_FEATURES
    if features is not None:
        return "+avx2" in features
    if config.CPU_NAME not in (None, llvmlite.binding.get_host_cpu_name()):
        return False
    return bool(llvmlite.binding.get_host_cpu_features().get("avx2", False))


_make: Final = _vector_test if has_avx2() else _plain_test

# test(lanes, offset, low tables, high tables, table offset) gives a bit per lane; without interval only the high tables are read
leaf_test: Final = _make(3, False)
leaf_test_interval: Final = _make(3, True)
box_test: Final = _make(2, False)
box_test_interval: Final = _make(2, True)
