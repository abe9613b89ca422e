"""Numbers and times from text, exactly as Python reads them. What is out of the ordinary is left to Python.

A decimal with up to 19 digits becomes the nearest double by one or two multiplications of 64 bits, after Lemire (Number Parsing at a
Gigabyte per Second): 128 bits of each power of five decide the rounding.

Replaces `float` and `columns.times.micros_of_text`: 0.18 us a number and 2 us a time; this takes 0.03 us each
(part of what `pastforward bench codecs` measures).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pastforward.columns.kernel import kernel
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.schemas.kernels.kinds import Array, Number, Result

FAILED: Final = 0
INTEGER: Final = 2  # as in `columns.attributes`
FLOAT: Final = 3

# Results stay normal doubles: 19 digits times 10^-320 would not.
_LOWEST_POWER: Final = -300
_HIGHEST_POWER: Final = 280


def _powers_of_five() -> np.ndarray:
    rows = []
    for power in range(_LOWEST_POWER, _HIGHEST_POWER + 1):
        if power < 0:
            divisor = 5**-power
            # One above the truncated quotient, so that the product never falls short.
            value = (1 << (2 * divisor.bit_length() + 128)) // divisor + 1
        else:
            value = 5**power << 128
        value >>= value.bit_length() - 128
        if power < 0 and power >= -27:
            divisor = 5**-power
            value = (1 << (divisor.bit_length() + 127)) // divisor + 1
        rows.append((value >> 64, value & (2**64 - 1)))
    return np.array(rows, dtype=np.uint64)


_POWERS: Final = _powers_of_five()
_LOW_HALF = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ONE = np.uint64(1)
_UNDECIDED = np.uint64(0x1FF)  # all of the bits below the 55 that decide


@kernel
def _multiply(a: Number, b: Number) -> Result:
    """The 128 bits of a product: high, low."""
    a_low, a_high = a & _LOW_HALF, a >> _32
    b_low, b_high = b & _LOW_HALF, b >> _32
    low = a_low * b_low
    middle = a_high * b_low + (low >> _32)
    other = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _32) + (other >> _32), (other << _32) | (low & _LOW_HALF)


@kernel
def double_bits(digits: Number, power: Number) -> Result:
    """The bits of digits * 10^power, rounded to nearest, ties to even; -1 if that is for Python to say."""
    if digits == np.uint64(0):
        return np.int64(0)
    if power < _LOWEST_POWER or power > _HIGHEST_POWER:
        return np.int64(-1)
    zeros = 0
    while digits >> np.uint64(63) == np.uint64(0):
        digits <<= _ONE
        zeros += 1
    high, low = _multiply(digits, _POWERS[power - _LOWEST_POWER, 0])
    if high & _UNDECIDED == _UNDECIDED:
        more, _ = _multiply(digits, _POWERS[power - _LOWEST_POWER, 1])
        low += more
        if more > low:
            high += _ONE
    top = np.int64(high >> np.uint64(63))
    drop = np.uint64(top + 9)
    mantissa = high >> drop
    exponent = ((217706 * power) >> 16) + 63 + top - zeros + 1023
    if exponent <= 0 or exponent >= 2046:
        return np.int64(-1)
    if low <= _ONE and -4 <= power <= 23 and mantissa & np.uint64(3) == _ONE and mantissa << drop == high:
        mantissa &= ~_ONE  # exactly between two doubles: to the even one
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >> np.uint64(53) != np.uint64(0):
        mantissa >>= _ONE
        exponent += 1
    return np.int64(mantissa & np.uint64((1 << 52) - 1)) | (np.int64(exponent) << 52)


@kernel
def read_number(data: Array, at: Number, end: Number) -> Result:
    """Type (FAILED, INTEGER, FLOAT), the 64 bits, and the place behind a JSON number."""
    negative = at < end and data[at] == 0x2D
    if negative:
        at += 1
    digits = np.uint64(0)
    count = 0
    begin = at
    while at < end and 0x30 <= data[at] <= 0x39:
        digits = digits * np.uint64(10) + np.uint64(data[at] - 0x30)
        at += 1
    count = at - begin
    if count == 0 or count > 19 or (count > 1 and data[begin] == 0x30):
        return FAILED, np.int64(0), at
    if at == end or (data[at] != 0x2E and data[at] != 0x65 and data[at] != 0x45):
        if digits > np.uint64(2**63 - 1) or (negative and digits == np.uint64(0)):
            return FAILED, np.int64(0), at
        return INTEGER, -np.int64(digits) if negative else np.int64(digits), at
    power = 0
    if data[at] == 0x2E:
        at += 1
        point = at
        while at < end and 0x30 <= data[at] <= 0x39:
            if digits != np.uint64(0) or data[at] != 0x30:
                count += 1
                if count > 19:
                    return FAILED, np.int64(0), at
            digits = digits * np.uint64(10) + np.uint64(data[at] - 0x30)
            at += 1
        power = point - at
        if power == 0:
            return FAILED, np.int64(0), at
    if at < end and (data[at] == 0x65 or data[at] == 0x45):
        at += 1
        minus = at < end and data[at] == 0x2D
        if minus or (at < end and data[at] == 0x2B):
            at += 1
        begin = at
        exponent: Number = 0
        while at < end and 0x30 <= data[at] <= 0x39:
            exponent = exponent * 10 + np.int64(data[at] - 0x30)
            at += 1
        if not 0 < at - begin <= 4:
            return FAILED, np.int64(0), at
        power += -exponent if minus else exponent
    bits = double_bits(digits, power)
    if bits < 0:
        return FAILED, np.int64(0), at
    return FLOAT, bits | (np.int64(-(2**63)) if negative else np.int64(0)), at


@kernel
def _digits(data: Array, at: Number, count: Number) -> Result:
    value: Number = 0
    for index in range(at, at + count):
        if not 0x30 <= data[index] <= 0x39:
            return -1
        value = value * 10 + np.int64(data[index] - 0x30)
    return value


@kernel
def _days(year: Number, month: Number, day: Number) -> Result:
    """Days since 1970 in the Gregorian calendar; years are taken to begin in March, so that the leap day is last."""
    if month <= 2:
        year -= 1
        month += 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469


_DAYS_OF_MONTH: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
NO_TIME: Final = -(2**63)


@kernel
def read_rfc3339(data: Array, at: Number, end: Number) -> Result:
    """Microseconds since 1970, or NO_TIME if it is no such text."""
    if end - at < 20:
        return NO_TIME
    year, month, day = _digits(data, at, 4), _digits(data, at + 5, 2), _digits(data, at + 8, 2)
    hour, minute, second = _digits(data, at + 11, 2), _digits(data, at + 14, 2), _digits(data, at + 17, 2)
    if data[at + 4] != 0x2D or data[at + 7] != 0x2D or data[at + 13] != 0x3A or data[at + 16] != 0x3A:
        return NO_TIME
    if data[at + 10] != 0x54 and data[at + 10] != 0x74 and data[at + 10] != 0x20:
        return NO_TIME
    if (
        year < 1
        or not 1 <= month <= 12
        or day < 1
        or not 0 <= hour < 24
        or not 0 <= minute < 60
        or not 0 <= second < 60
    ):
        return NO_TIME
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS_OF_MONTH[month - 1] + (1 if leap else 0):
        return NO_TIME
    at += 19
    fraction: Number = 0
    if data[at] == 0x2E:
        at += 1
        begin = at
        while at < end and 0x30 <= data[at] <= 0x39:
            if at - begin < 6:
                fraction = fraction * 10 + np.int64(data[at] - 0x30)
            at += 1
        if at == begin:
            return NO_TIME
        for _ in range(at - begin, 6):
            fraction *= 10
    offset = 0
    if at == end - 1:
        if data[at] != 0x5A and data[at] != 0x7A:
            return NO_TIME
    elif at == end - 6:
        hours, minutes = _digits(data, at + 1, 2), _digits(data, at + 4, 2)
        if data[at + 3] != 0x3A or not 0 <= hours < 24 or not 0 <= minutes < 60:
            return NO_TIME
        if data[at] == 0x2B:
            offset = hours * 60 + minutes
        elif data[at] == 0x2D:
            offset = -hours * 60 - minutes
        else:
            return NO_TIME
    else:
        return NO_TIME
    seconds = _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset * 60
    micros = seconds * 1000000 + fraction
    return micros if MIN_TIME <= micros <= MAX_TIME else NO_TIME
