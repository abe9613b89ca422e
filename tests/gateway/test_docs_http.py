"""What the page on HTTP shows is what happens: its lines, as they stand there."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.conftest import ROOT
from tests.gateway.conftest import Served

PAGE = (ROOT / "docs/http.md").read_text("utf-8")


def shown() -> list[tuple[str, str]]:
    """Commands, and what they print; … stands for anything."""
    found = []
    for block in re.findall(r"^```curl\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = command.rstrip("\n").split("\n")
            last = next(n for n, line in enumerate(lines) if not line.endswith(("\\", "|")))
            found.append(("\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])))
    return found


@pytest.mark.broker
def test_every_example_prints_what_the_page_shows(served: Served) -> None:
    assert len(shown()) > 10
    for command, expected in shown():
        done = subprocess.run(
            ["bash", "-c", command], env={"URL": served.url, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
        )
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), (command, done.stdout, done.stderr)
