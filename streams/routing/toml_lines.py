"""On which line of a TOML text a key stands: `tomllib` forgets it, and an error should name it."""

from __future__ import annotations

import re
from typing import Final

_HEADER: Final = re.compile(r"\s*\[\[\s*([\w.-]+)\s*\]\]")
_TABLE: Final = re.compile(r"\s*\[[^\[]")
_KEY: Final = re.compile(r"""\s*["']?([\w.-]+)["']?\s*=""")

# Table, its number among those of that name, key ("": the table's header). What stands in no table has "" and 0.
Place = tuple[str, int, str]


class Lines:
    """Counted from 1. A key that is written in some unusual way has the line of its table."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Place, int] = {}
        counts: dict[str, int] = {}
        table, index = "", 0
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                table = header[1]
                index = counts.get(table, 0)
                counts[table] = index + 1
                self._lines[table, index, ""] = number
            elif _TABLE.match(line):
                table, index = line.strip(" []"), 0
                self._lines[table, 0, ""] = number
            elif key := _KEY.match(line):
                self._lines.setdefault((table, index, key[1]), number)

    def of(self, table: str, index: int, key: str = "") -> int | None:
        return (
            self._lines.get((table, index, key))
            or self._lines.get((table, index, ""))
            or self._lines.get(("", 0, table))
        )
