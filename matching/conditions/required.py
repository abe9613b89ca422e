"""What a regular expression requires: texts that every match holds, one after the other. So most texts are told apart without it.

Only what is certain counts. Anything that is not understood here requires nothing, or ends the reading.
"""

from __future__ import annotations

import re
from typing import Final

from pastforward.matching.conditions.patterns import ANY_ONE, ANY_RUN, ESCAPE

_QUANTIFIERS: Final = "*+?{"
_OPAQUE_ESCAPES: Final = (
    "dDwWsSbBAz"  # classes and places; others that are letters or digits may be longer than two characters
)
_PLACES: Final = "^$"
_FOLDED: Final = re.compile(r"\(\?(?:i|is|si)\)")
# What a piece does not hold: what is not ASCII, what the long s and the sign of Kelvin are folded to, and what LIKE reads.
_UNSAFE: Final = re.compile(r"[^\x00-\x7f]|[kKsS%_\\]")


class _Unknown(Exception):
    pass


def required_texts(expression: str) -> list[str]:
    """In the order in which they come in every match. Empty: nothing is certain."""
    try:
        return _Reader(expression).texts()
    except (_Unknown, IndexError, ValueError):
        return []


def necessary_like(expression: str) -> str | None:
    """A LIKE pattern, as `patterns.like_text` writes it, that holds for whatever the expression matches; None if there is none."""
    texts = required_texts(expression)
    if not texts:
        return None
    for special in (ESCAPE, ANY_RUN, ANY_ONE):
        texts = [text.replace(special, ESCAPE + special) for text in texts]
    return ANY_RUN + ANY_RUN.join(texts) + ANY_RUN


def necessary_pieces(expression: str) -> str | None:
    """The same for an expression that has no regard to case, in lower case: pieces of ASCII that nothing else is folded to, so a text of
    any case holds them once its letters A to Z are lower ones. Between `%`; None if there is none."""
    begin = _FOLDED.match(expression)
    if begin is None:
        return None
    pieces = [piece for text in required_texts(expression[begin.end() :]) for piece in _UNSAFE.split(text)]
    pieces = [piece for piece in pieces if piece]
    return ANY_RUN + ANY_RUN.join(pieces).lower() + ANY_RUN if pieces else None


class _Reader:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._at = 0
        self._found: list[str] = []
        self._run = ""

    def texts(self) -> list[str]:
        text = self._expression
        if "\\Q" in text:
            raise _Unknown
        while self._at < len(text):
            character = text[self._at]
            if character == "|":
                return []
            if character in _QUANTIFIERS + ")":
                raise _Unknown
            if character == "(":
                self._skip_group()
                self._opaque()
            elif character == "[":
                self._skip_class()
                self._opaque()
            elif character == ".":
                self._at += 1
                self._opaque()
            elif character in _PLACES:
                self._at += 1
                self._end_run()
                if self._quantified():
                    raise _Unknown
            elif character == "\\":
                self._escape()
            else:
                self._at += 1
                self._literal(character)
        self._end_run()
        return self._found

    def _end_run(self) -> None:
        if self._run:
            self._found.append(self._run)
        self._run = ""

    def _opaque(self) -> None:
        """After something that may be anything: its quantifier does not matter."""
        self._end_run()
        self._quantifier()

    def _quantified(self) -> bool:
        return self._at < len(self._expression) and self._expression[self._at] in _QUANTIFIERS

    def _literal(self, character: str) -> None:
        if not self._quantified():
            self._run += character
            return
        if self._quantifier():
            self._run += character
        self._end_run()
        # another quantifier would be about this one
        if self._quantified():
            raise _Unknown

    def _quantifier(self) -> bool:
        """Passes over one. Whether what it is about comes at least once."""
        text = self._expression
        if not self._quantified():
            return True
        character = text[self._at]
        self._at += 1
        least = character == "+"
        if character == "{":
            end = text.find("}", self._at)
            count = text[self._at : end].split(",")[0] if end >= 0 else ""
            if not (count.isascii() and count.isdigit()):
                raise _Unknown  # a brace that stands for itself
            least = int(count) > 0
            self._at = end + 1
        if self._at < len(text) and text[self._at] == "?":
            self._at += 1  # as few as possible: the same texts match
        return least

    def _escape(self) -> None:
        character = self._expression[self._at + 1]
        self._at += 2
        if character in _OPAQUE_ESCAPES:
            self._opaque()
        elif character.isalnum() or not character.isascii():
            raise _Unknown
        else:
            self._literal(character)

    def _skip_group(self) -> None:
        text = self._expression
        if text.startswith("(?", self._at) and not text.startswith("(?:", self._at):
            raise _Unknown  # flags change what letters mean
        depth = 0
        while True:
            character = text[self._at]
            if character == "[":
                self._skip_class()
                continue
            if character == "(" and text.startswith("(?", self._at) and not text.startswith("(?:", self._at):
                raise _Unknown
            self._at += 2 if character == "\\" else 1
            depth += (character == "(") - (character == ")")
            if depth == 0:
                return

    def _skip_class(self) -> None:
        text = self._expression
        self._at += 1
        if text[self._at] == "^":
            self._at += 1
        first = True
        while text[self._at] != "]" or first:
            first = False
            if text.startswith("[:", self._at):
                self._at = text.index(":]", self._at) + 2
            elif text[self._at] == "\\":
                self._at += 2
            else:
                self._at += 1
        self._at += 1
