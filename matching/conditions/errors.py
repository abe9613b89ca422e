"""What is wrong with a condition, where, and what to write instead."""

from __future__ import annotations

from pastforward.errors import PastforwardError


class ConditionError(PastforwardError, ValueError):
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
    near = text[position : position + 20]
    return f", near {near!r}" if near else " (the end)"


def shown(value: object) -> str:
    """A value for an error message: short, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # of others: an integer of 5,000 digits, a class that has never been printed
        return f"<{type(value).__name__}>"
    return text if len(text) <= 80 else text[:77] + "..."
