"""LIKE patterns and regular expressions: how they are read, simplified and tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import re2

from pastforward.matching.conditions.limits import MAX_REGEX_BYTES
from pastforward.matching.conditions.normal_form import Pattern, PatternKind
from pastforward.matching.conditions.template_cache import ShapeCache

ANY_RUN: Final = "%"
ANY_ONE: Final = "_"
ESCAPE: Final = "\\"

# Compiled expressions kept: enough for the patterns of a busy partition. The oldest go first, and are compiled again when they are needed.
_COMPILED: Final = 16_384
_COMPILED_BYTES: Final = 64 << 20

# What one takes: measured 1.4 KB and 30 bytes for each instruction, and as much again once it has searched.
_COMPILED_LEAST: Final = 3_000
_INSTRUCTION: Final = 64

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False  # the error is raised; the log would only repeat it
_OPTIONS.max_mem = MAX_REGEX_BYTES
_OPTIONS.never_capture = True  # only whether it matches is asked


class BadPattern(ValueError):
    """The pattern cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    expression: Any
    weight: int


_compiled: Final[ShapeCache[_Compiled]] = ShapeCache(_COMPILED, _COMPILED_BYTES)


def compile_regex(text: str) -> Any:
    """A compiled RE2 expression. Raises `BadPattern`."""
    known = _compiled.get(("matches", text))
    return known.expression if known is not None else _kept("matches", text, text)


def _kept(kind: str, text: str, regex: str) -> Any:
    expression = _compile(regex)
    size = expression.programsize + expression.reverseprogramsize
    _compiled.put((kind, text), _Compiled(expression, _COMPILED_LEAST + _INSTRUCTION * size))
    return expression


def _compile(text: str) -> Any:
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else "not understood"
        raise BadPattern(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from error


def read_like(text: str, escape: str | None) -> tuple[str, ...]:
    """The pattern as a sequence of literal runs and the two wildcards. Raises `BadPattern`.

    The sequence alternates: a literal, wildcards, a literal and so on; it begins and ends with a (maybe empty) literal.
    Between two literals, `_` come before `%`, and `%` comes once: equal patterns have equal readings.
    """
    literals, wildcards, run = [], [], ""
    characters = iter(text)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise BadPattern("the pattern ends with its escape character")
            if following not in (ANY_RUN, ANY_ONE, escape):
                raise BadPattern(
                    f"the escape character stands before {following!r}, but escapes only % and _ and itself"
                )
            run += following
        elif character in (ANY_RUN, ANY_ONE):
            literals.append(run)
            wildcards.append(character)
            run = ""
        else:
            run += character
    literals.append(run)
    reading = [literals[0]]
    pending = ""
    for wildcard, literal in zip(wildcards, literals[1:], strict=True):
        pending += wildcard
        if literal:
            reading += _ordered(pending, literal)
            pending = ""
    if pending:
        reading += _ordered(pending, "")
    return tuple(reading)


def _ordered(wildcards: str, literal: str) -> list[str]:
    ordered = ANY_ONE * wildcards.count(ANY_ONE) + (ANY_RUN if ANY_RUN in wildcards else "")
    return [ordered, literal]


def like_text(reading: tuple[str, ...]) -> str:
    """The canonical LIKE text of a reading, with backslash as the escape character."""
    return "".join(_escaped(part) if place % 2 == 0 else part for place, part in enumerate(reading))


def _escaped(literal: str) -> str:
    for special in (ESCAPE, ANY_RUN, ANY_ONE):
        literal = literal.replace(special, ESCAPE + special)
    return literal


def like_pattern(reading: tuple[str, ...]) -> tuple[PatternKind | None, str]:
    """The simplest kind that says the same, with its text; None: equal to the text. `%` alone is the prefix ''."""
    match reading:
        case (text,):
            return None, text
        case (text, "%", ""):
            return PatternKind.PREFIX, text
        case ("", "%", text):
            return PatternKind.SUFFIX, text
        case ("", "%", text, "%", ""):
            return PatternKind.SUBSTRING, text
    return PatternKind.LIKE, like_text(reading)


def compile_like(text: str) -> Any:
    """The canonical LIKE text as a compiled expression."""
    known = _compiled.get(("like", text))
    if known is not None:
        return known.expression
    parts = []
    for place, part in enumerate(read_like(text, ESCAPE)):
        if place % 2 == 0:
            parts.append(re2.escape(part))
        else:
            parts.append("." * part.count(ANY_ONE) + (".*" if ANY_RUN in part else ""))
    return _kept("like", text, r"(?s)\A" + "".join(parts) + r"\z")


FOLDED: Final = "(?is)"  # how an expression begins that has no regard to case, and whose dot is any character
_SPECIAL: Final = str.maketrans({**{sign: "\\" + sign for sign in r"\.+*?()|[]{}^$"}, "\0": r"\x00"})


def has_case(text: str) -> bool:
    """Whether folding may change something in it, or make something equal to it."""
    return text.casefold() != text or text.upper() != text


def folded_like(reading: tuple[str, ...]) -> str:
    """The expression that a LIKE pattern is without regard to case."""
    parts = [
        part.translate(_SPECIAL) if place % 2 == 0 else "." * part.count(ANY_ONE) + (".*" if ANY_RUN in part else "")
        for place, part in enumerate(reading)
    ]
    begin, end = r"\A", r"\z"
    if len(reading) > 1 and reading[0] == "" and reading[1] == ANY_RUN:
        begin, parts[1] = "", ""
    if len(reading) > 1 and reading[-1] == "" and reading[-2].endswith(ANY_RUN):
        end, parts[-2] = "", parts[-2].removesuffix(".*")
    return FOLDED + begin + "".join(parts) + end


def folded_texts(texts: list[str]) -> str:
    """The expression that is one of these without regard to case."""
    escaped = [text.translate(_SPECIAL) for text in texts]
    return FOLDED + r"\A" + (escaped[0] if len(escaped) == 1 else f"(?:{'|'.join(escaped)})") + r"\z"


def matches(pattern: Pattern, value: str) -> bool:
    """Whether the value matches, `negated` left aside."""
    kind, text = pattern.kind, pattern.text
    if kind is PatternKind.PREFIX:
        return value.startswith(text)
    if kind is PatternKind.SUFFIX:
        return value.endswith(text)
    if kind is PatternKind.SUBSTRING:
        return text in value
    compiled = compile_like(text) if kind is PatternKind.LIKE else compile_regex(text)
    return compiled.search(value) is not None
