"""Runs a worker in this process until a signal ends it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import logging
import os
import sys
from typing import Any, Final

import faust
import uvloop
from aiokafka.errors import KafkaError
from mode.utils import logging as mode_logging

from pastforward import running
from pastforward.errors import UserError
from pastforward.registry import open_registry
from pastforward.settings import Settings
from pastforward.state.errors import StoreError
from pastforward.streams.transport import left_behind
from pastforward.streams.warm import compile_kernels
from pastforward.streams.worker.broker_watch import BrokerWatch, watch
from pastforward.streams.worker.host import Host
from pastforward.streams.worker.shutdown import Ending
from pastforward.streams.worker.status import Status, show_status
from pastforward.streams.worker.web import listen, url_of

log = logging.getLogger("pastforward.worker")

SWITCH: Final = 0.001  # seconds until a thread lets another one run Python; the default, five, adds to every latency

YOUNG: Final = 100_000  # objects until the collector looks for cycles: a fetch brings thousands of records, none of which is in one


FULL: Final = os.strerror(errno.ENOSPC)  # RocksDB says it in the same words


def run_worker(settings: Settings, bootstrap: str, partitions: int, *, status: bool = False) -> None:
    """Does not return: the process ends with 0 after a signal, with 1 after a failure. `status`: a line with rates on the terminal."""
    lock = _lock(settings)
    listening = listen(settings)
    uvloop.install()
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(YOUNG)
    compile_kernels()  # loads them: the first chunk should not wait for it
    host = Host(settings, bootstrap, partitions, open_registry(settings), listening)
    if status:
        show_status(host.first.app, Status(host.metrics, host))
    # `faust worker` would turn the web server on at 0.0.0.0, whatever the settings say; this does not.
    worker = _Worker(host.first.app, loglevel="WARNING", redirect_stdouts=False, override_logging=False, quiet=True)
    worker.spinner = None  # it writes to whatever standard output is
    worker.broker = watch(host.connection)
    worker.ending = Ending(lambda: worker.broker.away)
    log.info("worker of %s at %s, %d partitions", settings.application, bootstrap, partitions)
    log.info("metrics and health at %s", url_of(listening))
    running.announce(settings, url_of(listening))
    try:
        worker.execute_from_commandline()
    finally:
        running.forget(settings)
        lock.close()


class _Worker(faust.Worker):
    broker: BrokerWatch
    ending: Ending
    _watching: asyncio.Task[None]

    async def on_first_start(self) -> None:
        left_behind.pass_over(asyncio.get_running_loop())
        self._watching = asyncio.create_task(self.broker.run())
        self.broker.refused = self._refused
        await super().on_first_start()

    async def start(self) -> None:
        try:
            await super().start()
        except Exception as error:
            self._failed(error)
            if not self._excused:
                raise

    @property
    def _excused(self) -> bool:
        """Whoever was told to end while the broker is away has not failed, whatever its absence breaks on the way out."""
        return self.ending.begun and not self.ending.failed and self.broker.away

    def _schedule_shutdown(self, signal: Any) -> None:
        self.ending.begin(failed=False)
        self.broker.alarm()  # a broker that hangs is not known to be away yet
        super()._schedule_shutdown(signal)

    def _crash(self, reason: BaseException) -> None:
        self._failed(reason)
        super()._crash(reason)

    def _refused(self, why: str) -> None:
        error = UserError(
            f"Kafka does not let it into its group: {why}; are SESSION_TIMEOUT and the rights of the group right?"
        )
        self.add_future(self.app.crash(error))

    def _failed(self, reason: BaseException) -> None:
        if not self.ending.begun:  # what fails on the way out has its cause there
            _log_reason(reason)
        self.ending.begin(failed=True)

    def _shutdown_loop(self) -> None:
        self._watching.cancel()
        if self._excused:
            self.crash_reason = None  # it would be raised again
        super()._shutdown_loop()

    async def _cry(self) -> None:
        mode_logging.cry(file=sys.stderr)

    async def _sentinel_task(self) -> None:
        """Faust runs the loop for another second when everything has ended; a turn will do."""


def _log_reason(error: BaseException) -> None:
    if FULL in str(error):
        log.error("the worker stops: the disk is full (%s); make room, and start it again: nothing is lost", error)
    elif isinstance(error, KafkaError) and error.retriable:
        log.error("the worker stops: Kafka is not well (%s); start it again when it is: nothing is lost", error)
    else:
        clear = isinstance(error, UserError | StoreError)
        log.error("the worker stops: %s", error, exc_info=None if clear else error)


def _lock(settings: Settings) -> Any:
    """One process per data directory: its files have one writer."""
    directory = settings.make_folder("worker")
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
