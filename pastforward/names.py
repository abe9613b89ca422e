"""Names as topics: `roads/I-95/exit-4`, for what has a name at each level and no number.

A component is the first 53 bits of the SHA-256 of the name in UTF-8 (NFC), so the topic of a name is a function of the name alone: whoever
computes it, in any language, at any time, gets the same, and nobody has to ask anybody. The topic `names` keeps the way back, by path, for
people to read; it is compacted, and writing an entry twice changes nothing. Among a million names at one level two meet with a probability
of one in 18,000; a client that knows both says so.

A topic of names is told from a path by its slash: `roads/` is a name, `1.4` is a path.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Final

from pastforward.columns.dewey import MAX_DEPTH
from pastforward.schemas import SchemaError

SEPARATOR: Final = "/"
BITS: Final = 53  # every number of JSON and of a float has them
KNOWN: Final = 10_000  # names whose number need not be computed again: those of many records are the same


def is_name(topic: object) -> bool:
    return isinstance(topic, str) and SEPARATOR in topic


def topic(name: str) -> str:
    """The path of a name: `topic("roads/I-95")`."""
    return ".".join(str(component(part)) for part in parts(name))


def parts(name: str) -> list[str]:
    """The names of its levels. A slash at the end says that a single one is a name."""
    found = unicodedata.normalize("NFC", name).removesuffix(SEPARATOR).split(SEPARATOR)
    if not all(found):
        raise SchemaError(
            "bad_path", f"the topic {name!r} has an empty name: write names with slashes between, such as roads/I-95"
        )
    if len(found) > MAX_DEPTH:
        raise SchemaError("bad_path", f"the topic {name!r} is deeper than {MAX_DEPTH} names")
    return found


def levels(name: str) -> Iterator[tuple[str, str]]:
    """Path and name of what is above it, and of itself."""
    path, text = "", ""
    for part in parts(name):
        path = f"{path}.{component(part)}" if path else str(component(part))
        text = f"{text}{SEPARATOR}{part}" if text else part
        yield path, text


@lru_cache(KNOWN)
def component(name: str) -> int:
    try:
        return int.from_bytes(sha256(name.encode()).digest()[:8], "big") >> (64 - BITS)
    except UnicodeEncodeError:
        raise SchemaError("bad_path", f"the name {name!r} has half of a surrogate pair: write valid Unicode") from None
