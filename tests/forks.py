"""The command line, and what else a test kills, in processes that are forked: most of a start is imports, and here they are done once.

A process of its own all the same, with signals, files and an exit code. Those of `pastforward up`, of the demo, of the terminal and of
the page on the history are started as a user starts them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path

from pastforward.cli import main
from pastforward.settings import ROOT

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.forks", "pastforward.streams.worker.process", "pastforward.streams.explain"])
# a start looks at the ends of all others, and of two threads that read the same end one reads nothing
_ONE_LOOKS = threading.Lock()


def _run(
    arguments: Sequence[str],
    files: tuple[Path, Path],
    cwd: Path,
    environment: dict[str, str],
    prepare: Callable[[], None] | None,
) -> None:
    for number, path in enumerate(files, 1):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["pastforward", *arguments]
    if prepare is not None:
        prepare()
    main()


class Forked:
    """`pastforward …`, with as much of `subprocess.Popen` as the tests need. What it says is added to files: its output, its errors.
    `prepare`: called first, in the process itself."""

    def __init__(
        self,
        arguments: Sequence[str],
        files: tuple[Path, Path],
        cwd: Path | None = None,
        environment: dict[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        settings = {**os.environ, **(environment or {})}
        with _ONE_LOOKS:
            self._process = FORKS.Process(target=_run, args=(arguments, files, cwd or Path.cwd(), settings, prepare))
            # the first one starts the server, which finds in the directory that it is started in what it imports
            with contextlib.chdir(ROOT):
                self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with _ONE_LOOKS:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("pastforward", timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    arguments: Sequence[str],
    directory: Path,
    *,
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run`. `directory`: for what it says."""
    files = (directory / "stdout", directory / "stderr")
    for file in files:
        file.write_bytes(b"")
    process = Forked(arguments, files, cwd, environment)
    try:
        code = process.wait(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, code, *(file.read_text("utf-8") for file in files))
