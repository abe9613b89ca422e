"""No Docker engine is needed: the file is parsed, and its commands, ports and settings are held against the code."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pastforward import settings
from pastforward.cli import root
from pastforward.streams.stages.metrics import Metrics
from tests.packaging import project

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service.get("image") == "pastforward"]


def test_the_services_are_those_of_the_documentation() -> None:
    assert set(SERVICES) == {"kafka", "schema-registry", "worker", "gateway", "history", "prometheus", "grafana"}
    assert set(OURS) == {"worker", "gateway", "history"}


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


def test_nothing_is_published_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_brokers_and_ports_agree() -> None:
    environment = SERVICES["kafka"]["environment"]
    advertised = dict(entry.split("://") for entry in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    for name in OURS:
        assert SERVICES[name]["environment"]["PASTFORWARD_BOOTSTRAP_SERVERS"] == advertised["INSIDE"]
    assert SERVICES["kafka"]["ports"] == ["127.0.0.1:9092:9092"]
    assert advertised["OUTSIDE"] == "localhost:9092"
    web = settings.KNOWN["web_port"].default
    assert SERVICES["worker"]["expose"] == [str(web)]
    assert f"http://127.0.0.1:${{PASTFORWARD_WEB_PORT:-{web}}}/ready" in (ROOT / "docker/healthy").read_text()
    (scraped,) = yaml.safe_load((ROOT / "docker/prometheus.yml").read_text())["scrape_configs"]
    assert [(found["names"], found["port"]) for found in scraped["dns_sd_configs"]] == [(["worker"], web)]


def test_workers_scale() -> None:
    """Nothing that only one of them can have."""
    worker = SERVICES["worker"]
    assert not {"container_name", "ports", "hostname"} & worker.keys()
    assert all(":" not in volume for volume in worker["volumes"])
    assert not [name for name in SERVICES if name.startswith("worker-")]


def test_the_dashboard_shows_metrics_that_workers_have() -> None:
    dashboard = json.loads((ROOT / "docker/grafana/pastforward.json").read_text())
    shown = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"pastforward_\w+", target["expr"])
    }
    measured = set()
    for line in Metrics().text().splitlines():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            measured |= {f"{name}_bucket", f"{name}_count", f"{name}_sum"} if kind == "histogram" else {name}
    assert shown <= measured, shown - measured
    assert len(shown) >= 12


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_knows(status: int, code: int) -> None:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        path = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        given = {**path, "PASTFORWARD_WEB_PORT": str(server.server_address[1])}
        assert (
            subprocess.run([ROOT / "docker" / "healthy"], env=given, capture_output=True, check=False).returncode
            == code
        )


def test_files_that_services_mount_are_there() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            if volume.startswith("."):
                assert (ROOT / volume.split(":")[0]).is_file(), (name, volume)


def test_every_service_has_a_health_check_and_every_volume_is_declared() -> None:
    for name, service in SERVICES.items():
        assert service["healthcheck"]["test"], name
        for volume in service.get("volumes", []):
            if not volume.startswith(("/", ".")):
                assert volume.split(":")[0] in COMPOSE["volumes"], volume


def test_the_broker_is_the_version_that_is_embedded() -> None:
    pom = (ROOT / "pastforward/jars/kafka/pom.xml").read_text()
    version = re.search(r"<kafka.version>([\d.]+)<", pom)
    assert version is not None
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version[1]}"


def test_the_image_copies_every_package() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE))
    assert copied - {"docker"} == {"pastforward", *project()["tool"]["setuptools"]["package-dir"].values()}
    assert "docker" in copied
    for script in re.findall(r"/source/(docker/\w+)|^RUN (docker/\w+)", dockerfile, re.MULTILINE):
        assert os.access(ROOT / "".join(script), os.X_OK), script


def test_the_image_does_not_run_as_root() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    user = dockerfile.index("USER pastforward")
    assert user < dockerfile.index(
        "RUN docker/install"
    )  # what is installed is the user's: Numba wants to write beside it
    assert "USER" not in dockerfile[user + len("USER") :]
