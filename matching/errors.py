"""What is wrong with a condition, where, and what to write instead."""

from __future__ import annotations


class ConditionError(ValueError):
    """A condition that cannot be taken.

    `problem` says what is wrong, `hint` what to write instead (it may be empty), `position` is the character, counted
    from 0, at which the text goes wrong; None if the condition did not come as text.
    """

    def __init__(self, problem: str, hint: str = "", *, text: str = "", position: int | None = None) -> None:
        self.problem = problem
        self.hint = hint
        self.text = text
        self.position = position
        message = problem
        if position is not None:
            message = f"at character {position + 1}{_excerpt(text, position)}: {problem}"
        super().__init__(f"{message}. {hint}" if hint else message)


def _excerpt(text: str, position: int) -> str:
    """A few characters from where it goes wrong: enough to find the place by eye."""
    shown = text[position : position + 20]
    if not shown:
        return " (the end)"
    return f", near {shown!r}"
