"""Named readers: nothing is lost, whoever is killed, and what was acknowledged does not come again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pytest

from pastforward import Client, UserError
from pastforward.broker import Broker
from pastforward.client.group import group_name
from pastforward.schemas import Notification, encode
from pastforward.settings import load
from pastforward.topics import connect, ensure
from tests.outside import PATIENCE

pytestmark = pytest.mark.broker

ENVIRONMENT = {"PASTFORWARD_KAFKA_SESSION_TIMEOUT_MS": "2000"}
# A program that prints what it reads, and where it would go on. Its position is in a group, or in a file.
READER = """
import os, sys
from pathlib import Path
from pastforward import Client
from pastforward.settings import load
bootstrap, how, place = sys.argv[1:]
with Client(bootstrap, settings=load({"topic_prefix": "groups."})) as client:
    if how == "group":
        stream = client.notifications("reader", group=place)
    else:
        stream = client.notifications("reader", after=Path(place).read_text())
    print("begin", flush=True)
    for number, notification in enumerate(stream):
        print(notification.notification_id, notification.publication_id, flush=True)
        if how == "group":
            if number % 3 == 0:
                stream.ack(notification)
        else:
            part = Path(place + ".part")
            part.write_text(stream.token)
            part.replace(place)
"""


@pytest.fixture(scope="module")
def client(broker: Broker) -> Client:
    settings = load({"topic_prefix": "groups.", "partitions": 3}, environment=ENVIRONMENT)
    ensure(settings, connect(settings, broker.bootstrap))
    return Client(broker.bootstrap, settings=settings)


def notify(client: Client, recipient: str, *names: str) -> None:
    records = [
        Notification(uuid.uuid4().hex, "s", "0-1", name, recipient, "subscriber", "1", 1, 1, "live") for name in names
    ]
    client._send("groups.notifications", [(recipient, encode(record)) for record in records])


def names_of(stream: Any, count: int) -> list[str]:
    return [next(stream).publication_id for _ in range(count)]


def test_what_was_not_acknowledged_comes_again(client: Client) -> None:
    first = client.notifications("anna", group="g", timeout=PATIENCE)
    notify(client, "anna", "a", "b", "c", "d")
    found = [next(first) for _ in range(3)]
    assert first.ack(found[1])  # which covers the one before it
    assert first.ack(found[0])  # and goes no step back
    first.close()
    with client.notifications("anna", group="g", timeout=PATIENCE) as again:
        found = [next(again) for _ in range(2)]
        assert [each.publication_id for each in found] == ["c", "d"]
        assert again.ack(found[-1])
    with client.notifications("anna", group="g", timeout=PATIENCE) as again:
        notify(client, "anna", "e")
        assert names_of(again, 1) == ["e"]
    with client.notifications("anna", group="another", since="-1h", timeout=PATIENCE) as other:
        assert names_of(other, 5) == ["a", "b", "c", "d", "e"]


def test_a_group_begins_where_it_was_first_read(client: Client) -> None:
    """Also if its first member read nothing, or was gone before it could acknowledge."""
    client.notifications("ben", group="g").close()
    notify(client, "ben", "a")
    for _ in range(2):
        with client.notifications("ben", group="g", timeout=PATIENCE) as stream:
            assert names_of(stream, 1) == ["a"]


def test_groups_of_two_recipients_have_nothing_in_common(client: Client) -> None:
    names = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("a.b", "c"), ("é", "c")]
    assert len({group_name(client._settings, *pair) for pair in names}) == len(names)
    with pytest.raises(UserError, match="group needs a recipient"):
        client.notifications(group="g")  # type: ignore[call-overload]
    with (
        client.notifications("cleo", group="g", timeout=PATIENCE) as hers,
        client.notifications("dora", group="g", timeout=PATIENCE) as other,
    ):
        notify(client, "cleo", "cleo's")
        notify(client, "dora", "dora's")
        assert (names_of(hers, 1), names_of(other, 1)) == (["cleo's"], ["dora's"])
        mine = hers.positions.keys()
        if mine != other.positions.keys():
            found = client.notifications("dora", since="-1h", timeout=PATIENCE)
            with pytest.raises(UserError, match="not of this stream"):
                hers.ack(next(found))


class Program:
    """A reader in a process of its own."""

    def __init__(self, bootstrap: str, how: str, place: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, bootstrap, how, place],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )
        self.lines: Queue[str] = Queue()
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.put(line)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    started: list[Program] = []
    yield started
    for each in started:
        each.kill()


def received(program: Program, count: int) -> list[tuple[str, str]]:
    """Up to so many notifications: id, publication."""
    found: list[tuple[str, str]] = []
    while len(found) < count:
        try:
            line = program.lines.get(timeout=PATIENCE).split()
        except Empty:
            raise AssertionError(f"{len(found)} of {count} came: {found}") from None
        if line[0] != "begin":
            found.append((line[0], line[1]))
    return found


def killed_at_random(client: Client, programs: list[Program], how: str, place: str, kills: int) -> None:
    """Killed at random, a reader has each notification at least once, and each life none twice; and it does get on."""
    chance = random.Random(how)
    sent: list[str] = []
    seen: set[str] = set()
    for kill in range(kills + 1):
        batch = [f"{kill}-{n}" for n in range(10)]
        notify(client, "reader", *batch)
        sent += batch
        program = Program(client.bootstrap_servers, how, place)
        programs.append(program)
        left = len(sent) - len(seen)
        life = received(program, max(1, chance.randrange(left) if kill < kills else 1))
        while kill == kills and seen | {name for _, name in life} != set(sent):
            life += received(program, 1)
        program.kill()
        while not program.lines.empty():
            words = program.lines.get_nowait().split()
            if len(words) == 2:
                life.append((words[0], words[1]))
        assert len({each for each, _ in life}) == len(life)
        names = [name for _, name in life]
        assert names == [name for name in sent if name in set(names)]  # in order, without a hole
        assert not sent.index(names[0]) > len(seen), "what was read in no life is passed over"
        seen.update(names)
    assert seen == set(sent)


@pytest.mark.parametrize("how", ["group", "token"])
def test_a_reader_that_is_killed_misses_nothing(
    client: Client, programs: list[Program], how: str, tmp_path: Path
) -> None:
    kills_of(client, programs, how, tmp_path, 4)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["group", "token"])
def test_a_reader_that_is_killed_twenty_times_misses_nothing(
    client: Client, programs: list[Program], how: str, tmp_path: Path
) -> None:
    kills_of(client, programs, how, tmp_path, 20)


def kills_of(client: Client, programs: list[Program], how: str, directory: Path, kills: int) -> None:
    place = uuid.uuid4().hex
    if how == "token":
        file = directory / "token"
        file.write_text(client.notifications("reader").token)
        place = str(file)
    else:
        client.notifications("reader", group=place).close()
    killed_at_random(client, programs, how, place, kills)


def test_who_stands_by_takes_over(client: Client, programs: list[Program]) -> None:
    """Two members of one group: one reads, and when it is killed the other goes on with what was not acknowledged."""
    place = uuid.uuid4().hex
    client.notifications("reader", group=place).close()
    pair = [Program(client.bootstrap_servers, "group", place) for _ in range(2)]
    programs += pair
    for program in pair:
        assert program.lines.get(timeout=PATIENCE) == "begin\n"
    notify(client, "reader", "probe")
    first: Program | None = None
    while first is None:
        first = next((each for each in pair if not each.lines.empty()), None)
    received(first, 1)
    first.kill()
    second = pair[1 - pair.index(first)]
    sent = [f"after-{n}" for n in range(5)]
    notify(client, "reader", *sent)
    names: list[str] = []
    while not set(names) >= set(sent):
        names += [name for _, name in received(second, 1)]
    assert [name for name in names if name != "probe"] == sent
