"""The examples do what they say."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.gateway import browser
from tests.gateway.conftest import Served
from tests.outside import PATIENCE, Outside

pytestmark = pytest.mark.broker


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and where it is served: another origin than the gateway's."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.skipif(browser.executable() is None, reason="no browser: install one (Debian: apt-get install chromium)")
def test_the_page_of_thirty_lines_shows_what_happens(system: Any, elsewhere: tuple[Path, str], tmp_path: Path) -> None:
    folder, origin = elsewhere
    served = Served(system.bootstrap, tmp_path / "gateway", "--origin", origin)
    text = (ROOT / "examples/notifications.html").read_text("utf-8")
    script = text.partition("<script>")[2].partition("</script>")[0]
    assert len(script.strip().splitlines()) <= 30
    (folder / "page.html").write_text(text.replace("http://localhost:8765", served.url))
    with served.client() as client, browser.browser() as chromium:
        page = chromium.new_page()
        body = {"publication_id": "example-1", "topic": "1.4.9", "attributes": {"kind": "accident"}}
        assert client.post("/v1/publications", json=body).status_code == 201
        page.goto(f"{origin}/page.html")
        page.wait_for_selector("li:has-text('past example-1')", timeout=PATIENCE * 1000)
        client.post("/v1/publications", json={**body, "publication_id": "example-2"})
        page.wait_for_selector("li:has-text('live example-2')", timeout=PATIENCE * 1000)
    served.stop()


@pytest.mark.skipif(shutil.which("javac") is None, reason="a Java runtime without a compiler runs no source file")
def test_the_java_program_needs_kafka_alone(outside: Outside) -> None:
    command = [
        "java",
        "-cp",
        f"{ROOT}/.jars/kafka/*",
        str(ROOT / "examples/Accidents.java"),
        outside.bootstrap,
        outside.prefix,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        outside.wait("rendezvous", lambda m: b"severity" in m.value())
        outside.publish("java-1", topic="1.4.2", attributes={"kind": "accident", "severity": 4})
        assert process.stdout is not None
        line = process.stdout.readline()
        assert '"publication_id":"java-1"' in line
    finally:
        process.kill()
        process.wait()
