"""What a kernel says of a pair."""

from __future__ import annotations

from typing import Final

NO: Final = 0
YES: Final = 1
UNSURE: Final = 2  # the definition decides, in Python
