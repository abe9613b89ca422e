"""What docs/wire-format.md shows is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from pastforward import schemas
from pastforward.columns.vocabulary import SYMBOLS
from pastforward.schemas import Publication, limits
from pastforward.schemas.definitions import current
from pastforward.schemas.errors import Kind
from pastforward.schemas.program import avro_program

PAGE = (Path(__file__).parents[2] / "docs" / "wire-format.md").read_text(encoding="utf-8")


def test_the_bytes_of_the_example() -> None:
    found = re.search(r"^C3 01  .*?(?=^```)", PAGE, re.S | re.M)
    assert found is not None
    block = found.group()
    shown = bytes.fromhex("".join(re.match(r"((?:[0-9A-F]{2} +)+)", line).group(1) for line in block.splitlines()))  # type: ignore[union-attr]
    assert shown == schemas.encode(Publication(topic="1.4", attributes={"a": 3}))


def test_every_field_is_on_the_page() -> None:
    for name in ("subscription", "publication", "notification", "dead_letter"):
        for field in current(name).schema["fields"]:
            assert f"`{field['name']}`" in PAGE, f"{name}.{field['name']}"


def test_every_operator_is_on_the_page() -> None:
    for symbol in SYMBOLS:
        positive = symbol.removeprefix("not_")
        assert f"`{symbol}`" in PAGE or f"`{positive}`" in PAGE, symbol


def test_the_examples_are_taken() -> None:
    for line in re.findall(r"^(s1|p1)\|(.*)$", PAGE, re.M):
        decode = schemas.decode_subscription if line[0] == "s1" else schemas.decode_publication
        assert decode(line[0].encode(), line[1].encode())
    for value in re.findall(r"^\| [a-zA-Z, 0-9]+ \| `([{\"t0-9].*?)`", PAGE, re.M):
        assert schemas.decode_publication(None, f'{{"attributes": {{"x": {value}}}}}'.encode()).attributes
    structured = re.search(r"```json\n(.*?)```", PAGE, re.S)
    assert structured is not None
    assert schemas.decode_publication(None, f'{{"where": {structured.group(1)}}}'.encode()).where


def test_the_branches_of_a_value() -> None:
    program = avro_program(current("publication"))
    assert program is not None
    # boolean, long, double, string, Timestamp, Point, Circle, Box, Path, by the tags of columns.attributes
    assert program.value_tags.tolist() == [1, 2, 3, 5, 4, 6, 7, 8, 9]


def test_every_kind_of_error_is_on_the_page() -> None:
    for kind in get_args(Kind):
        assert f"`{kind}`" in PAGE, kind


def test_limits_are_as_stated() -> None:
    assert f"UTF-8, 1 to {limits.MAX_ID_BYTES} bytes" in PAGE
    assert f"the same, 1 to {limits.MAX_NAME_BYTES} bytes" in PAGE
    assert f"at most {limits.MAX_PATH_DEPTH} of them" in PAGE
    assert limits.MAX_PATH_COMPONENT == 2**63 - 1
    assert "numbers from 0 to 2^63-1" in PAGE
    assert f"nested more than {limits.MAX_NESTING} deep" in PAGE
    assert f"above {limits.MAX_REASON_BYTES >> 10} KiB" in PAGE
    assert f"the first {limits.MAX_DEAD_LETTER_KEY_BYTES >> 10} KiB" in PAGE
    assert f"above {limits.MAX_DEAD_LETTER_BYTES >> 21} MiB" in PAGE
    assert f"at most {limits.MAX_RECORD_BYTES >> 20} MiB" in PAGE
