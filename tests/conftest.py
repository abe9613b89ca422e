"""One real broker for the whole run; workers as processes of their own, as a user has them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from pastforward import broker as embedded
from pastforward.settings import Settings, load
from tests import forks
from tests.outside import Outside, WorkerUnderTest

pytest_plugins = ["pastforward.testing"]

ROOT = Path(__file__).resolve().parent.parent
# Files whose tests share nothing but the broker, the longest first.
ALONE = tuple(
    f"tests/{name}"
    for name in (
        "spark_batch/test_page",
        "streams/worker/test_faults",
        "streams/worker/test_edges",
        "streams/test_end_to_end",
        "streams/worker/test_routing_change",
        "pastforward/test_broker",
    )
)

# A setting of the developer's own shell must not change what the tests see.
for _name in [name for name in os.environ if name.startswith("PASTFORWARD_")]:
    del os.environ[_name]
# Whatever a test starts keeps its files below the directory that it is run in.
os.environ["PASTFORWARD_DATA_DIR"] = ".pastforward"
# What a shell starts in the background ignores interrupts, and so would each process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


# A busy machine is no reason to fail.
settings.register_profile(
    "pastforward",
    deadline=None,
    # Everybody's run draws the same examples; new ones are drawn by `make soak`, where a failure has the time to be shrunk.
    derandomize=True,
    # Shrinking takes up to five minutes, and what explains a failure traces each line: both would end in the time-out, with the failure
    # unseen. `HYPOTHESIS_SHRINK=1 pytest --timeout 0 …` shrinks it.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.too_slow],
)
_shrunk = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
settings.register_profile("shrink", parent=settings.get_profile("pastforward"), phases=_shrunk)
settings.register_profile("soak", parent=settings.get_profile("shrink"), derandomize=False)
_profiles = {"HYPOTHESIS_SOAK": "soak", "HYPOTHESIS_SHRINK": "shrink"}
settings.load_profile(next((profile for name, profile in _profiles.items() if os.environ.get(name)), "pastforward"))


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What goes in one process: half of all that needs a Spark session, and each file that shares a worker."""
    for item in items:
        if item.nodeid.startswith(ALONE):
            continue
        if item.nodeid.startswith("tests/spark_batch"):
            dies = item.nodeid.startswith(("tests/spark_batch/test_crashes", "tests/spark_batch/test_kills"))
            item.add_marker(pytest.mark.xdist_group("spark-dies" if dies else "spark"))
        elif item.nodeid.startswith("tests/gateway") and item.get_closest_marker("broker"):
            item.add_marker(pytest.mark.xdist_group("gateway"))  # which share a worker
        elif item.get_closest_marker("broker"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """Long ones first, so that no process is left with one at the end: what shares a Spark session, what is alone, then what shares a
    worker, which waits more than it works."""
    alone = [number for number, name in enumerate(ALONE, 1) if item.nodeid.startswith(name)]
    if alone:
        return alone[0]
    if item.nodeid.startswith("tests/spark_batch"):
        return 0
    return len(ALONE) + (1 if item.get_closest_marker("broker") else 2)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent  # what all processes of this run have in common
    return load({"data_dir": directory / "pastforward", "jars_dir": ROOT / ".jars"}, environment={})


@pytest.fixture(scope="session")
def broker(base: Settings) -> Iterator[embedded.Broker]:
    """The first process that needs it starts it, the last one that leaves stops it."""
    base.data_dir.mkdir(exist_ok=True)
    with (base.data_dir / "users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        running = embedded.start(base)
        yield running
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            running.stop()


class OwnBroker:
    """A broker of the test's own, which may be killed."""

    def __init__(self, directory: Path) -> None:
        self.settings = load({"data_dir": directory, "jars_dir": ROOT / ".jars"}, environment={})
        self.running = embedded.start(self.settings)

    @property
    def bootstrap(self) -> str:
        return self.running.bootstrap

    def end(self, how: signal.Signals) -> None:
        os.kill(self.running.pid, how)
        if how is signal.SIGKILL:
            self.running.stop()  # waits for its end

    def restart(self) -> None:
        self.running = embedded.start(self.settings, int(self.running.bootstrap.rpartition(":")[2]))


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    own = OwnBroker(tmp_path_factory.mktemp("broker"))
    yield own
    with contextlib.suppress(ProcessLookupError):
        os.kill(own.running.pid, signal.SIGKILL)  # it may have been stopped, and nobody needs its files
    own.running.stop()


StartWorker = Callable[..., WorkerUnderTest]


@contextlib.contextmanager
def _workers(broker: embedded.Broker, directories: pytest.TempPathFactory) -> Iterator[StartWorker]:
    started: list[WorkerUnderTest] = []

    def start(**settings: object) -> WorkerUnderTest:
        settings.setdefault("data_dir", directories.mktemp("worker"))
        bootstrap = str(settings.pop("bootstrap", broker.bootstrap))
        prepare: Any = settings.pop("prepare", None)
        flags = {name: "" if value is None else str(value) for name, value in settings.items()}
        worker = WorkerUnderTest(bootstrap, flags, prepare)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()


@pytest.fixture
def start_worker(broker: embedded.Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartWorker]:
    """Starts a worker with the given settings; none is left at the end of the test."""
    with _workers(broker, tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="module")
def start_shared(broker: embedded.Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartWorker]:
    """The same for a worker that the tests of a file share: one that idles until the last test of all has ended costs as much as it."""
    with _workers(broker, tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="module")
def _outside(request: pytest.FixtureRequest, broker: embedded.Broker, start_shared: StartWorker) -> Iterator[Outside]:
    """A running system of two partitions, as any Kafka client sees it; one for each file."""
    prefix = f"outside-{request.path.stem}."
    worker = start_shared(topic_prefix=prefix, partitions=2, hot_window="10m", notification_format="json")
    worker.wait_ready()
    client = Outside(broker.bootstrap, prefix)
    yield client
    client.close()


@pytest.fixture
def outside(_outside: Outside) -> Iterator[Outside]:
    """The same, with nothing subscribed by an earlier test."""
    yield _outside
    _outside.leave()


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Runs `pastforward …`."""
    directory = tmp_path_factory.mktemp("command")
    return lambda *arguments, **options: forks.run(arguments, directory, **options)
