"""Dewey paths, times and numbers: the plain functions against what Python says, the kernels against the plain functions."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward.columns.times import MAX_TIME, MIN_TIME, datetime_of
from pastforward.schemas import SchemaError
from pastforward.schemas.dewey_text import check_path, path_components, path_text
from pastforward.schemas.fields import check_id
from pastforward.schemas.kernels.numbers import FAILED, FLOAT, INTEGER, NO_TIME, read_number, read_rfc3339
from pastforward.schemas.kernels.text import is_id, is_path, is_utf8
from pastforward.schemas.times import micros_of, micros_of_text
from tests.schemas import strategies as some


def array(raw: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bytearray(raw), dtype=np.uint8)


# ----------------------------------------------------------------------------------------------------------------- paths


@given(st.lists(some.components, max_size=64).map(tuple))
def test_a_path_and_its_components(components: tuple[int, ...]) -> None:
    assert path_components(path_text(components)) == components
    assert is_path(array(path_text(components).encode()), 0, len(path_text(components)))


def test_the_root_is_the_empty_path() -> None:
    assert path_components("") == ()


BAD_PATHS = {
    "1..2": "empty component",
    ".1": "empty component",
    "1.": "empty component",
    ".": "empty component",
    "1.x": "'x', which is no number",
    "1.-2": "no number",
    "+1": "no number",
    "1. 2": "no number",
    "1.٣": "no number",
    "1.²": "no number",
    "1.02": "leading zero",
    "00": "leading zero",
    "9223372036854775808": "above 2^63-1",
    "1" * 20: "above 2^63-1",
    ".".join(["1"] * 65): "deeper than 64",
}


@pytest.mark.parametrize("text", BAD_PATHS)
def test_a_bad_path_says_what_is_wrong(text: str) -> None:
    with pytest.raises(SchemaError, match="the path") as raised:
        check_path(text)
    assert BAD_PATHS[text] in str(raised.value)
    assert raised.value.kind == "bad_path"


@pytest.mark.parametrize("text", ["0", "1.0", "1.9", "1.10", "9223372036854775807", ".".join(["7"] * 64)])
def test_a_good_path(text: str) -> None:
    assert check_path(text) == text


@given(st.text("0123456789.x-", max_size=30) | st.sampled_from(sorted(BAD_PATHS)))
def test_the_kernel_knows_the_same_paths(text: str) -> None:
    raw = text.encode()
    try:
        check_path(text)
        good = True
    except SchemaError:
        good = False
    assert is_path(array(raw), 0, len(raw)) == good


# ------------------------------------------------------------------------------------------------------------------- ids


@given(st.binary(max_size=12) | st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_the_kernel_knows_utf8(raw: bytes) -> None:
    try:
        raw.decode()
        good = True
    except UnicodeDecodeError:
        good = False
    assert is_utf8(array(raw), 0, len(raw)) == good


@pytest.mark.parametrize(
    "raw", [b"", b"a" * 512, b"a" * 513, b"a\0b", "é".encode() * 256, "é".encode() * 257, b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"]
)  # fmt: skip
def test_the_kernel_knows_the_same_ids(raw: bytes) -> None:
    try:
        check_id(raw.decode(), "the id")
        good = True
    except (SchemaError, UnicodeDecodeError):
        good = False
    assert is_id(array(raw), 0, len(raw)) == good


# ----------------------------------------------------------------------------------------------------------------- times


@given(some.moments)
def test_times_and_datetimes(micros: int) -> None:
    assert micros_of(datetime_of(micros)) == micros


def kernel_time(text: str) -> int:
    raw = text.encode()
    return int(read_rfc3339(array(raw), 0, len(raw)))


@given(some.moments, st.sampled_from("Tt "), st.sampled_from(["Z", "z", "+00:00", "-00:00", "+05:30", "-23:59"]))
def test_rfc3339(micros: int, separator: str, offset: str) -> None:
    text = datetime_of(micros).replace(tzinfo=None).isoformat().replace("T", separator) + offset
    sign = -1 if offset[0] == "-" else 1
    minutes = 0 if offset in "Zz" else sign * (int(offset[1:3]) * 60 + int(offset[4:6]))
    expected = micros - minutes * 60_000_000
    if MIN_TIME <= expected <= MAX_TIME:
        assert micros_of_text(text, "t") == expected == kernel_time(text)
    else:
        with pytest.raises(SchemaError, match="outside the years 1 to 9999"):
            micros_of_text(text, "t")
        assert kernel_time(text) == NO_TIME


def test_digits_beyond_the_microsecond_are_cut() -> None:
    assert (
        micros_of_text("1970-01-01T00:00:00.1234567899Z", "t")
        == 123456
        == kernel_time("1970-01-01T00:00:00.1234567899Z")
    )
    assert micros_of_text("1970-01-01T00:00:00.5Z", "t") == 500_000 == kernel_time("1970-01-01T00:00:00.5Z")


_NEARLY_TIMES = (
    r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{0,8})?(Z|[+-][0-2][0-9]:[0-6][0-9])"
)


@given(st.text("0123456789-:.TZ+ ", max_size=30) | st.from_regex(_NEARLY_TIMES, fullmatch=True))
def test_the_kernel_knows_the_same_times(text: str) -> None:
    try:
        expected = micros_of_text(text, "t")
    except SchemaError:
        expected = NO_TIME
    assert kernel_time(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-31",
        "2025-01-31T12:00:00",
        "2025-02-29T00:00:00Z",
        "2025-01-31T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "٢٠٢٥-01-31T12:00:00Z",
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(SchemaError):
        micros_of_text(text, "t")
    assert kernel_time(text) == NO_TIME


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(SchemaError, match="aware datetime"):
        micros_of(datetime(2025, 1, 1))


def test_an_aware_datetime_of_another_zone() -> None:
    zone = timezone(timedelta(hours=2))
    assert micros_of(datetime(2025, 1, 1, 2, tzinfo=zone)) == micros_of(datetime(2025, 1, 1, tzinfo=UTC))


# --------------------------------------------------------------------------------------------------------------- numbers


def kernel_number(text: str) -> int | float | None:
    raw = text.encode()
    kind, bits, at = read_number(array(raw), 0, len(raw))
    if kind == FAILED or at != len(raw):
        return None
    if kind == INTEGER:
        return int(bits)
    assert kind == FLOAT
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_as_python_writes_them(value: float) -> None:
    found = kernel_number(repr(value))
    if found is None:  # left to Python: subnormal, or nearly infinite
        assert abs(value) < 1e-280 or abs(value) > 1e280
    else:
        assert isinstance(found, float)
        assert struct.pack("<d", found) == struct.pack("<d", value)


@given(st.integers(0, 10**19 - 1), st.integers(-340, 320), st.booleans())
def test_decimals_are_rounded_as_python_rounds(digits: int, power: int, negative: bool) -> None:
    text = f"{'-' if negative else ''}{digits}e{power}"
    found = kernel_number(text)
    if found is not None:
        assert struct.pack("<d", found) == struct.pack("<d", float(text))
    else:
        assert not 1e-270 < abs(float(text)) < 1e270


@given(st.integers(2**53, 2**54), st.integers(0, 3))
def test_halves_go_to_the_even_double(value: int, shift: int) -> None:
    text = f"{value >> shift}.{'5' if shift else '0'}"
    assert kernel_number(text) == float(text)


@given(st.integers(-(2**64), 2**64))
def test_integers(value: int) -> None:
    assert kernel_number(str(value)) == (value if -(2**63) < value < 2**63 else None)


@pytest.mark.parametrize(
    "text", ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "-0", "1.5e99999", "NaN", "1_0", "1 "]
)
def test_what_is_left_to_python(text: str) -> None:
    assert kernel_number(text) is None
