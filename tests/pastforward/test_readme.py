"""What the README tells a newcomer to type does what it says: its lines, as they stand there, against a system that they start."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.outside import PATIENCE
from tests.pastforward.test_cli import descendants

pytestmark = pytest.mark.broker

README = (ROOT / "README.md").read_text("utf-8")


def five_minutes() -> tuple[list[str], str]:
    """The shell's lines, and the Python example."""
    section = README.split("## Five minutes\n")[1].split("\n## ")[0]
    shell, python = re.findall(r"^```(?:python)?\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return shell.splitlines(), python


class Lines:
    """What a process says, line by line; how long one may take has a bound."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self._lines, self.said = process, Queue[str](), list[str]()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def wait(self, pattern: str) -> re.Match[str]:
        while True:
            try:
                line = self._lines.get(timeout=2 * PATIENCE)
            except Empty:
                raise AssertionError(f"nothing like {pattern!r} came; it said: {self.said}") from None
            self.said.append(line)
            if found := re.search(pattern, line):
                return found


def start(command: list[str], directory: Path) -> Lines:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=directory,
        env={**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
    )
    return Lines(process)


class Newcomer:
    """At a shell, in a directory with an environment that `make setup` has made."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / ".venv").symlink_to(Path(sys.prefix))
        self.shell = start(["bash"], directory)
        (self.setup, self.up, self.publish, self.subscribe, self.watch), self.example = five_minutes()
        self.type("make() { true; }")
        self.type(self.setup)
        self.type(self.up)
        self.shell.wait(r"^bootstrap\.servers=127\.0\.0\.1:\d+$")

    def type(self, line: str) -> None:
        stdin: Any = self.shell.process.stdin
        stdin.write(line + "\n")
        stdin.flush()

    def says(self, line: str, pattern: str) -> str:
        self.type(line)
        return self.shell.wait(pattern)[1]

    def lines_of_the_shell(self) -> None:
        publication = self.says(self.publish, r"^publication (\S+)$")
        subscription = self.says(self.subscribe, r"^subscription (\S+)")
        self.type(self.watch)
        self.shell.wait(rf" (past|live) .* {subscription} ← {publication} at 1\.4\.2")
        self.interrupt("watch")

    def interrupt(self, name: str) -> None:
        for pid in descendants(self.shell.process.pid):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if name.encode() in words:
                    os.kill(pid, signal.SIGINT)

    def lines_of_python(self) -> None:
        (self._directory / "example.py").write_text(self.example)
        example = start([sys.executable, "example.py"], self._directory)
        try:
            example.wait(r"^past ")
        finally:
            example.process.send_signal(signal.SIGINT)
            example.process.wait(PATIENCE)

    def leave(self) -> None:
        """A key press ends what is in the foreground, `kill %1` what is behind it."""
        self.interrupt("watch")
        self.type("kill -TERM %1; wait; exit")
        self.shell.process.wait(2 * PATIENCE)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    who = Newcomer(tmp_path)
    yield who
    who.leave()


def follows(newcomer: Newcomer, times: int) -> None:
    for _ in range(times):
        newcomer.lines_of_the_shell()
        newcomer.lines_of_python()


def test_five_minutes(newcomer: Newcomer) -> None:
    follows(newcomer, 3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_five_minutes_fifty_times(newcomer: Newcomer) -> None:
    follows(newcomer, 50)
