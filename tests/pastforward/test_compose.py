"""No Docker engine is needed: the file is parsed, and its commands, ports and settings are held against the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pastforward import settings
from pastforward.cli import root
from tests.packaging import project

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service.get("image") == "pastforward"]


def test_the_services_are_those_of_the_documentation() -> None:
    assert set(SERVICES) == {"kafka", "schema-registry", "worker-1", "worker-2", "history"}
    assert set(OURS) == {"worker-1", "worker-2", "history"}


@pytest.mark.parametrize("name", OURS)
def test_commands_exist_with_their_flags(name: str) -> None:
    command: click.Command = root
    words = list(SERVICES[name]["command"])
    while words and isinstance(command, click.Group):
        word = words.pop(0)
        found = command.get_command(click.Context(command), word)
        assert found is not None, f"no command {word}"
        command = found
    known = {flag: option for option in command.params for flag in option.opts}
    while words:
        option = known[words.pop(0)]
        if isinstance(option, click.Option) and not option.is_flag:
            option.type.convert(words.pop(0), option, None)


@pytest.mark.parametrize("name", OURS)
def test_settings_are_known_and_valid(name: str) -> None:
    chosen = settings.load(environment=SERVICES[name]["environment"])
    assert chosen.bootstrap_servers == "kafka:19092"
    assert chosen.sources["partitions"] == "environment"


def test_brokers_and_ports_agree() -> None:
    environment = SERVICES["kafka"]["environment"]
    advertised = dict(entry.split("://") for entry in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    for name in OURS:
        assert SERVICES[name]["environment"]["PASTFORWARD_BOOTSTRAP_SERVERS"] == advertised["INSIDE"]
    assert SERVICES["kafka"]["ports"] == ["9092:9092"]
    assert advertised["OUTSIDE"] == "localhost:9092"
    web = settings.KNOWN["web_port"].default
    for name in ("worker-1", "worker-2"):
        assert [port.split(":")[1] for port in SERVICES[name]["ports"]] == [str(web)]
        assert f":{web}/ready" in " ".join(SERVICES[name]["healthcheck"]["test"])


def test_every_service_has_a_health_check_and_every_volume_is_declared() -> None:
    for name, service in SERVICES.items():
        assert service["healthcheck"]["test"], name
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in COMPOSE["volumes"], volume
    assert not [name for name in ("worker-1", "worker-2") if "container_name" in SERVICES[name]]


def test_the_broker_is_the_version_that_is_embedded() -> None:
    pom = (ROOT / "pastforward/jars/kafka/pom.xml").read_text()
    version = re.search(r"kafka_2\.13</artifactId>\s*<version>([\d.]+)<", pom)
    assert version is not None
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version[1]}"


def test_the_image_copies_every_package() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE))
    assert copied == {"pastforward", *project()["tool"]["setuptools"]["package-dir"].values()}
    assert 'ENTRYPOINT ["pastforward"]' in dockerfile
