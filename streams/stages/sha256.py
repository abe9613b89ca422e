"""The ids of notifications, by the chunk: SHA-256 over texts that lie in heaps, without a Python object for any of them.

In place of a `hashlib.sha256` each: 0.42 us with the text that it is given; here 0.12 us where the processor has instructions for it
(`pastforward bench codecs`).
"""

from __future__ import annotations

from math import isqrt
from typing import Any, Final

import llvmlite.binding
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from pastforward.columns.kernel import kernel
from pastforward.streams.stages.kernels import I64, U8, copy

BLOCK: Final = 64
ID: Final = 32  # hex digits of the 16 bytes that are kept
_PADDING: Final = 9  # a byte of one bit, and eight of the length


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % each for each in found):
            found.append(number)
        number += 1
    return found


def _cube_root(number: int) -> int:
    low, high = 0, number
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= number else (low, middle - 1)
    return low


# The first 32 bits of the fractions of the square and cube roots of the first primes.
_ROUNDS: Final = [_cube_root(prime << 96) & 0xFFFFFFFF for prime in _primes(64)]
_BEGIN: Final = np.array([isqrt(prime << 64) & 0xFFFFFFFF for prime in _primes(8)], np.uint32)
_K: Final = np.array(_ROUNDS, np.uint32)

_WORDS: Final = ir.VectorType(ir.IntType(32), 4)
# The instructions want the eight words as F E B A and H G D C, from the lowest lane on.
_LANES: Final = (5, 4, 1, 0), (7, 6, 3, 2)


def _lanes(numbers: Any) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), [int(number) for number in numbers])


@intrinsic
def _vector_block(typing: Any, state: Any, data: Any, at: Any) -> Any:
    """Takes a block of 64 bytes into the state, by the processor's own instructions."""
    signature = types.void(state, data, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def pointer(position: int) -> Any:
            return context.make_array(signature.args[position])(context, builder, arguments[position]).data

        def declared(name: str, count: int) -> Any:
            known = builder.module.globals.get(name)
            return known or ir.Function(builder.module, ir.FunctionType(_WORDS, [_WORDS] * count), name)

        def picked(a: Any, b: Any, places: Any) -> Any:
            return builder.shuffle_vector(a, b, _lanes(places))

        two_rounds = declared("llvm.x86.sha256rnds2", 3)
        first, second = declared("llvm.x86.sha256msg1", 2), declared("llvm.x86.sha256msg2", 2)
        state_at = pointer(0)
        places = [builder.gep(state_at, [ir.Constant(ir.IntType(64), word)]) for word in range(8)]
        halves = []
        for lanes in _LANES:
            half: Any = ir.Constant(_WORDS, ir.Undefined)
            for lane, word in enumerate(lanes):
                half = builder.insert_element(half, builder.load(places[word]), ir.Constant(ir.IntType(32), lane))
            halves.append(half)
        low, high = before = tuple(halves)
        text = ir.VectorType(ir.IntType(8), 16)
        swapped = [4 * (byte // 4) + 3 - byte % 4 for byte in range(16)]
        schedule: list[Any] = []
        for group in range(16):
            if group < 4:
                place = builder.gep(pointer(1), [builder.add(arguments[2], ir.Constant(ir.IntType(64), 16 * group))])
                raw = builder.load(builder.bitcast(place, text.as_pointer()))
                raw.align = 1
                words = builder.bitcast(picked(raw, raw, swapped), _WORDS)
            else:
                a, b, c, d = schedule[-4:]
                words = builder.add(builder.call(first, [a, b]), picked(c, d, (1, 2, 3, 4)))
                words = builder.call(second, [words, d])
            schedule.append(words)
            keyed = builder.add(words, _lanes(_ROUNDS[4 * group : 4 * group + 4]))
            high = builder.call(two_rounds, [high, low, keyed])
            low = builder.call(two_rounds, [low, high, picked(keyed, keyed, (2, 3, 0, 0))])
        for half, old, lanes in zip((low, high), before, _LANES, strict=True):
            total = builder.add(half, old)
            for lane, word in enumerate(lanes):
                builder.store(builder.extract_element(total, ir.Constant(ir.IntType(32), lane)), places[word])
        return context.get_dummy_value()

    return signature, generate


@kernel
def _turn(value: Any, by: int) -> Any:
    return np.uint32(value >> np.uint32(by)) | np.uint32(value << np.uint32(32 - by))


@kernel
def plain_block(state: npt.NDArray[np.uint32], data: U8, at: int) -> None:
    """The same without such instructions."""
    w = np.empty(64, np.uint32)
    for i in range(16):
        word = np.uint32(0)
        for byte in range(4):
            word = np.uint32(word << np.uint32(8)) | np.uint32(data[at + 4 * i + byte])
        w[i] = word
    for i in range(16, 64):
        s0 = _turn(w[i - 15], 7) ^ _turn(w[i - 15], 18) ^ np.uint32(w[i - 15] >> np.uint32(3))
        s1 = _turn(w[i - 2], 17) ^ _turn(w[i - 2], 19) ^ np.uint32(w[i - 2] >> np.uint32(10))
        w[i] = np.uint32(w[i - 16] + s0 + w[i - 7] + s1)
    a, b, c, d, e, f, g, h = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
    for i in range(64):
        s1 = _turn(e, 6) ^ _turn(e, 11) ^ _turn(e, 25)
        t1 = np.uint32(h + s1 + ((e & f) ^ (~e & g)) + _K[i] + w[i])
        s0 = _turn(a, 2) ^ _turn(a, 13) ^ _turn(a, 22)
        t2 = np.uint32(s0 + ((a & b) ^ (a & c) ^ (b & c)))
        h, g, f, e, d, c, b, a = g, f, e, np.uint32(d + t1), c, b, a, np.uint32(t1 + t2)
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h


@kernel
def vector_block(state: npt.NDArray[np.uint32], data: U8, at: int) -> None:
    _vector_block(state, data, at)


def has_sha() -> bool:
    """Of the machine that Numba compiles for, which its settings may make less than the one it runs on."""
    features = config.CPU_FEATURES
    if features is not None:
        return "+sha" in features.split(",")
    if config.CPU_NAME not in (None, llvmlite.binding.get_host_cpu_name()):
        return False
    return bool(llvmlite.binding.get_host_cpu_features().get("sha", False))


_block: Final = vector_block if has_sha() else plain_block


@kernel
def put_digest(scratch: U8, length: Any, state: npt.NDArray[np.uint32], out: U8, at: Any) -> None:
    """The first half of the digest of what `scratch` begins with, in hex. There must be room behind it for a block and its padding."""
    blocks = (length + _PADDING + BLOCK - 1) // BLOCK
    end = blocks * BLOCK
    scratch[length] = 0x80
    for i in range(length + 1, end - 8):
        scratch[i] = 0
    for byte in range(8):
        scratch[end - 1 - byte] = ((8 * length) >> (8 * byte)) & 0xFF
    for word in range(8):
        state[word] = _BEGIN[word]
    for block in range(blocks):
        _block(state, scratch, np.int64(block * BLOCK))
    for word in range(ID // 8):
        for digit in range(8):
            nibble = np.int64(state[word] >> np.uint32(28 - 4 * digit)) & 15
            out[at + 8 * word + digit] = 0x30 + nibble if nibble < 10 else 0x57 + nibble


@kernel
def notification_ids(scratch: U8, out: U8, pairs: I64, rows: I64, subscribed: Any, published: Any, suffix: U8) -> None:
    """See `streams.matcher.notification_id`. Pair i is of the i-th name and version, and the publication of row `rows[pairs[i]]`.
    `subscribed`: names and versions, `published`: ids and topics, as `Texts.for_kernel` gives them. `suffix`: what follows. `scratch` has
    room for all of that with two blocks more."""
    (names, name_at, name_length), (versions, version_at, version_length) = subscribed
    (ids, id_at, id_length), (topics, topic_at, topic_length) = published
    state = np.empty(8, np.uint32)
    for i in range(len(pairs)):
        pair = pairs[i]
        row = rows[pair]
        at = copy(names, name_at[pair], np.int64(name_length[pair]), scratch, np.int64(0))
        scratch[at] = 0
        at = copy(versions, version_at[pair], np.int64(version_length[pair]), scratch, at + 1)
        scratch[at] = 0
        at = copy(ids, id_at[row], np.int64(id_length[row]), scratch, at + 1)
        scratch[at] = 0
        at = copy(topics, topic_at[row], max(np.int64(topic_length[row]), np.int64(0)), scratch, at + 1)
        at = copy(suffix, np.int64(0), np.int64(len(suffix)), scratch, at)
        put_digest(scratch, at, state, out, ID * i)
