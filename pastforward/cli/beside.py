"""The console beside a system that `up` or the demo has started: a process of its own, with the same settings."""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from pastforward.cli import serving
from pastforward.cli.options import as_flags
from pastforward.settings import Settings

PORT: Final = 8765
PATIENCE: Final = 30.0  # seconds until it is ready


def with_console_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that starts it."""
    command = click.option(
        "--console/--no-console",
        "with_console",
        default=True,
        help="With the console in the browser, if it is installed.",
    )(command)
    return click.option(
        "--console-port", type=click.IntRange(0, 65535), help=f"Its port; {PORT} if that is free, else any that is."
    )(command)


@contextmanager
def beside(settings: Settings, bootstrap: str, port: int | None, wanted: bool) -> Iterator[str | None]:
    """Its address; None: it does not run. What goes wrong with it ends nothing else."""
    if not wanted:
        yield None
        return
    if not serving.is_installed():
        click.echo(f"no console: {serving.INSTALL}", err=True)
        yield None
        return
    flags = as_flags(settings, bootstrap_servers=bootstrap)
    chosen = (PORT if _is_free(PORT) else 0) if port is None else port
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pastforward", "serve", "--port", str(chosen), *_taken(flags)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = _address(process)
        if address is not None:
            serving.announce(address)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _taken(flags: list[str]) -> list[str]:
    """Those that `serve` has."""
    known = {option for parameter in serving.serve.params for option in parameter.opts}
    pairs = zip(flags[::2], flags[1::2], strict=True)
    return [word for pair in pairs if pair[0] in known for word in pair]


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _address(process: subprocess.Popen[str]) -> str | None:
    """What it prints once it is ready."""
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True).start()  # type: ignore[union-attr]
    try:
        line = lines.get(timeout=PATIENCE)
    except queue.Empty:
        line = ""
    if not line.startswith("console="):
        click.echo("the console has not started; `pastforward serve` says why", err=True)
        return None
    return line.strip().removeprefix("console=")
