"""A real Kafka broker of our own: one node in KRaft mode, for whoever has none.

Everything it has is under `DATA_DIR/broker`: `server.properties`, `data/`, `broker.log`, and `running.json`, which says
who runs and where. A second start finds the first by it and uses it. Whoever started the JVM stops it, with SIGTERM,
by its pid. Data and, if it is still free, the port survive a restart.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pastforward.errors import UserError
from pastforward.settings import Settings

START_TIMEOUT: Final = 60.0  # seconds; 3 on an idle machine, ten times that on a busy one
STOP_TIMEOUT: Final = 30.0  # a broker writes its logs back before it ends
FIRST_PORT: Final = 10_000  # below it well-known servers listen
EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_EPHEMERAL: Final = 32_768  # Linux' own; elsewhere it is higher
LOG_TAIL: Final = 15  # lines of a dead broker's log that are shown: its last exception fits

# C1 only and the serial collector: the port is open after 2 to 3 s with 340 MB, and one small node needs no more.
JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)

PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={data}
auto.create.topics.enable=false
# a thread for each core: the eight and three that Kafka has otherwise keep two cores busy with waking each other
num.io.threads={cores}
num.network.threads={network}
# one node: no replicas, and few partitions in the internal topics, which cost files and start-up
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
# a lone worker should not wait for others to join its group
group.initial.rebalance.delay.ms=0
# the smallest session that a worker may ask for, so that a test of a takeover need not wait
group.min.session.timeout.ms=1000
"""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker. `started` tells whether this process started it, and so has to stop it."""

    bootstrap: str
    pid: int
    directory: Path
    started: bool

    def alive(self) -> bool:
        return _runs(self.pid)

    def check(self) -> None:
        """Raise with the end of the log if the broker has died."""
        if not self.alive():
            raise UserError(died(self.directory))

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not end it in time."""
        for sign, patience in ((signal.SIGTERM, STOP_TIMEOUT), (signal.SIGKILL, 5.0)):
            if not _runs(self.pid):
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sign)
            deadline = time.monotonic() + patience
            while _runs(self.pid) and time.monotonic() < deadline:
                time.sleep(0.05)
        if self.started:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)  # a zombie would stay as long as we do
        _note(self.directory).unlink(missing_ok=True)


def died(directory: Path) -> str:
    log = directory / "broker.log"
    lines = log.read_text("utf-8", "replace").splitlines()[-LOG_TAIL:] if log.exists() else []
    return f"the embedded broker has died; the end of {log}:\n" + "\n".join(f"  {line}" for line in lines)


def _note(directory: Path) -> Path:
    return directory / "running.json"


def _runs(pid: int) -> bool:
    """Is this our JVM, and not a zombie or another process that got its number?"""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    # between its exec and its first instruction a process has no command line yet
    return state != "Z" and (not command or b"kafka.Kafka" in command)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def any_port() -> int:
    """A free one, below those that the system gives to connections: nobody but a server can take it before it is used."""
    ports = random.sample(range(FIRST_PORT, _first_ephemeral()), 100)
    for port in ports:
        if is_free(port):
            return port
    raise UserError(f"no free port found between {FIRST_PORT} and {_first_ephemeral()}; what listens there?")


def _first_ephemeral() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        first = int(EPHEMERAL.read_text().split()[0])
        if first >= 2 * FIRST_PORT:
            return first
    return USUAL_EPHEMERAL


def java() -> str:
    """The `java` command; an error that says what to install when there is none, or one too old for Kafka 4."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if not path:
        raise UserError("no java found; install a Java 17 runtime (Debian: apt-get install openjdk-17-jre-headless)")
    return path


def jars(settings: Settings, of: str) -> list[Path]:
    found = sorted((settings.jars_dir / of).glob("*.jar"))
    if not found:
        folder = (settings.jars_dir / of).absolute()
        raise UserError(f"no jars in {folder}; run `pastforward setup`, or set PASTFORWARD_JARS_DIR")
    return found


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Two starts at once must not format and launch twice."""
    with (directory / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find(settings: Settings) -> Broker | None:
    """The embedded broker of this data directory, if it runs."""
    directory = settings.data_dir / "broker"
    try:
        note: dict[str, Any] = json.loads(_note(directory).read_text())
        broker = Broker(bootstrap=note["bootstrap"], pid=note["pid"], directory=directory, started=False)
    except (OSError, ValueError, KeyError):
        return None
    return broker if broker.alive() else None


def bootstrap_of(settings: Settings) -> str:
    """The configured brokers, or the embedded one that runs."""
    if settings.bootstrap_servers:
        return settings.bootstrap_servers
    found = find(settings)
    if found is None:
        raise UserError(
            f"no broker: none is set, and no embedded one runs in {settings.data_dir.absolute()}; "
            f"start `pastforward up`, or set PASTFORWARD_BOOTSTRAP_SERVERS"
        )
    return found.bootstrap


def archive(settings: Settings) -> Path:
    """Kafka's classes as a JVM has them in memory, made in set-up (`pastforward.preparation.archive`): with it a start takes half the
    time. A JVM that it does not fit passes over it."""
    return (settings.jars_dir / "kafka" / "classes.jsa").absolute()


def start(settings: Settings, port: int | None = None, options: Sequence[str] = ()) -> Broker:
    """Start the broker, or find the one that runs. Returns when it answers. `options`: more of them for its JVM."""
    directory = settings.make_folder("broker").absolute()
    with _alone(directory):
        running = find(settings)
        if running:
            if port and running.bootstrap != f"127.0.0.1:{port}":
                raise UserError(f"an embedded broker runs at {running.bootstrap}; stop it first (kill {running.pid})")
            return running
        return _launch(settings, directory, port, options)


def _launch(settings: Settings, directory: Path, port: int | None, options: Sequence[str]) -> Broker:
    if port and not is_free(port):
        raise UserError(f"port {port} is taken; choose another with --port, or leave it out for a free one")
    last = directory / "port"
    before = int(last.read_text()) if last.exists() else 0
    port = port or (before if before and is_free(before) else any_port())
    properties = directory / "server.properties"
    cores = os.cpu_count() or 2
    properties.write_text(
        PROPERTIES.format(
            port=port,
            controller=any_port(),
            data=directory / "data",
            cores=max(2, min(cores, 8)),
            network=max(1, min(cores // 2, 3)),
        )
    )
    classpath = ":".join(str(jar.absolute()) for jar in jars(settings, "kafka"))
    kept = archive(settings)
    quick = [f"-XX:SharedArchiveFile={kept}", "-Xlog:cds=off"] if kept.exists() else []
    command = [java(), *JVM, *quick, *LOGGING, "-cp", classpath]
    log = directory / "broker.log"
    if not (directory / "data" / "meta.properties").exists():
        _format(command, properties, directory)
    with log.open("ab") as output:
        # a session of its own, so that Ctrl-C reaches us first and we stop the broker after the worker
        process = subprocess.Popen(
            [command[0], *options, *command[1:], "kafka.Kafka", str(properties)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=directory,
        )
    broker = Broker(bootstrap=f"127.0.0.1:{port}", pid=process.pid, directory=directory, started=True)
    try:
        _note(directory).write_text(json.dumps({"pid": process.pid, "bootstrap": broker.bootstrap}))
        last.write_text(str(port))
        _wait(broker)
    except BaseException:
        broker.stop()
        raise
    return broker


def _format(command: list[str], properties: Path, directory: Path) -> None:
    # as `random-uuid` makes them, without a JVM: 16 bytes in base64, the first of which must not look like an option
    cluster = "0" + secrets.token_urlsafe(16)[1:]
    done = subprocess.run(
        [*command, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(properties)],
        capture_output=True,
        text=True,
        cwd=directory,
        check=False,
    )
    if done.returncode:
        raise UserError(f"the broker's storage cannot be formatted in {directory}: {done.stderr.strip()[-500:]}")


def _wait(broker: Broker) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    host, _, port = broker.bootstrap.partition(":")
    while time.monotonic() < deadline:
        broker.check()
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.5):
            break
        time.sleep(0.05)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    while time.monotonic() < deadline:
        broker.check()
        with contextlib.suppress(KafkaException):
            if admin.list_topics(timeout=2).brokers:
                return
    raise UserError(
        f"the embedded broker does not answer after {START_TIMEOUT:.0f} s; see {broker.directory}/broker.log"
    )
