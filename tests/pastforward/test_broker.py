"""The embedded broker: a broker of its own for each test, so that it can be stopped, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pastforward import broker, topics
from pastforward.errors import UserError
from pastforward.settings import Settings, load

pytestmark = pytest.mark.broker
JARS = Path(__file__).resolve().parents[2] / ".jars"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    chosen = load({"data_dir": tmp_path / "data", "jars_dir": JARS}, environment={})
    yield chosen
    left = broker.find(chosen)
    if left:
        left.stop()


def test_a_second_start_finds_the_first_and_data_survives_a_restart(settings: Settings) -> None:
    first = broker.start(settings)
    assert first.started
    second = broker.start(settings)
    assert (second.pid, second.bootstrap, second.started) == (first.pid, first.bootstrap, False)
    topics.ensure(settings, topics.connect(settings, first.bootstrap))
    first.stop()
    assert not first.alive()
    assert broker.find(settings) is None
    again = broker.start(settings)
    assert again.bootstrap == first.bootstrap
    assert "pastforward.rendezvous" in topics.existing(topics.connect(settings, again.bootstrap))
    again.stop()


def test_a_broker_that_dies_is_reported_with_the_end_of_its_log(settings: Settings) -> None:
    running = broker.start(settings)
    running.check()
    (running.directory / "broker.log").write_text("the last words\n")
    os.kill(running.pid, signal.SIGKILL)
    os.waitpid(running.pid, 0)
    with pytest.raises(UserError, match="the last words"):
        running.check()


def test_a_taken_port_is_one_line(settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} is taken"):
            broker.start(settings, port)


def test_missing_jars_say_what_to_run(tmp_path: Path) -> None:
    chosen = load({"data_dir": tmp_path / "data", "jars_dir": tmp_path}, environment={})
    with pytest.raises(UserError, match="pastforward setup"):
        broker.start(chosen)


def test_a_number_that_another_process_got_is_not_our_broker(settings: Settings) -> None:
    directory = settings.data_dir / "broker"
    directory.mkdir(parents=True)
    (directory / "running.json").write_text(json.dumps({"pid": os.getpid(), "bootstrap": "127.0.0.1:1"}))
    assert broker.find(settings) is None


def test_a_wrong_password_is_one_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    port = broker.any_port()
    guarded = f",SASL_PLAINTEXT://127.0.0.1:{port}\n"
    lines = [line + guarded if "listeners=" in line else line + "\n" for line in broker.PROPERTIES.splitlines()]
    lines.append(
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
    )
    lines.append("sasl.enabled.mechanisms=PLAIN\n")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    lines.append(f'listener.name.sasl_plaintext.plain.sasl.jaas.config={module} required user_anna="right";\n')
    monkeypatch.setattr(broker, "PROPERTIES", "".join(lines))
    running = broker.start(settings)
    environment = {
        "PASTFORWARD_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "PASTFORWARD_KAFKA_SASL_MECHANISM": "PLAIN",
        "PASTFORWARD_KAFKA_SASL_USERNAME": "anna",
    }
    right = load(environment={**environment, "PASTFORWARD_KAFKA_SASL_PASSWORD": "right"})
    assert topics.existing(topics.connect(right, f"127.0.0.1:{port}")) == {}
    wrong = load(environment={**environment, "PASTFORWARD_KAFKA_SASL_PASSWORD": "wrong"})
    with pytest.raises(UserError, match=r"uthentication.*check PASTFORWARD_KAFKA_SASL_USERNAME"):
        topics.connect(wrong, f"127.0.0.1:{port}")
    running.stop()


def test_a_free_port_is_none_that_a_connection_may_get() -> None:
    """A port of that kind was taken by another process's connection between its choice and its use."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(1024 < broker.any_port() < first for _ in range(50))


def test_an_archive_of_classes_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "jars" / "kafka"
    folder.mkdir(parents=True)
    for jar in (JARS / "kafka").glob("*.jar"):
        (folder / jar.name).symlink_to(jar)
    (folder / "classes.jsa").write_bytes(b"of another JVM")
    settings = load({"data_dir": tmp_path / "data", "jars_dir": folder.parent}, environment={})
    running = broker.start(settings)
    try:
        running.check()
    finally:
        running.stop()
