"""Runs a worker in this process until a signal ends it."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import sys
from typing import Any, Final

import faust
import uvloop

from pastforward.errors import UserError
from pastforward.registry import open_registry
from pastforward.settings import Settings
from streams.host import Host
from streams.status import Status, show_status
from streams.warm import compile_kernels

log = logging.getLogger("pastforward.worker")

SWITCH: Final = 0.001  # seconds until a thread lets another one run Python; the default, five, adds to every latency

YOUNG: Final = 100_000  # objects until the collector looks for cycles: a fetch brings thousands of records, none of which is in one


def run_worker(settings: Settings, bootstrap: str, partitions: int, *, status: bool = False) -> None:
    """Does not return: the process ends with 0 after a signal, with 1 after a failure. `status`: a line with rates on the terminal."""
    lock = _lock(settings)
    uvloop.install()
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(YOUNG)
    compile_kernels()  # loads them: the first chunk should not wait for it
    host = Host(settings, bootstrap, partitions, open_registry(settings))
    if status:
        show_status(host.first.app, Status(host.metrics, host))
    # `faust worker` would turn the web server on at 0.0.0.0, whatever the settings say; this does not.
    worker = _Worker(host.first.app, loglevel="WARNING", redirect_stdouts=False, override_logging=False, quiet=True)
    worker.spinner = None  # it writes to whatever standard output is
    log.info("worker of %s at %s, %d partitions", settings.application, bootstrap, partitions)
    try:
        worker.execute_from_commandline()
    finally:
        lock.close()


class _Worker(faust.Worker):
    async def _sentinel_task(self) -> None:
        """Faust runs the loop for another second when everything has ended; a turn will do."""


def _lock(settings: Settings) -> Any:
    """One process per data directory: its files have one writer."""
    directory = settings.data_dir / "worker"
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        pid = lock.read().strip()
        raise UserError(f"{directory} is in use by pid {pid}; give each worker a --data-dir of its own") from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
