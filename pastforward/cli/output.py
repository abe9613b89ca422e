"""What commands print: for a terminal in its width, for a pipe in whole lines."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console

from pastforward.client import Client
from pastforward.columns.dewey import topics_of

WIDE: Final = 4_000  # columns: whoever reads from a pipe cuts lines himself
LONG: Final = 12  # digits: of a hundred thousand numbers of names one has fewer
SHOWN: Final = 2  # topics of a subscription; more of them are cells of a circle, which tell nobody anything


def console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=WIDE)


def called(topic: str, client: Client) -> str:
    """A path as it is, or by name if it was made of names: only their numbers are so long."""
    if max(map(len, topic.split("."))) < LONG:
        return topic or "the root"
    return client.names.name(topic) or topic


def all_called(topics: str, client: Client) -> str:
    """The topics of a subscription."""
    given = topics_of(topics)
    shown = ", ".join(called(each, client) for each in given[:SHOWN])
    return shown if len(given) <= SHOWN else f"{shown} and {len(given) - SHOWN} more"
