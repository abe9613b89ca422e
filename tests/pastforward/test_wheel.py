"""The wheel as a stranger has it: in an environment of its own, from an empty directory, without the clone."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pastforward.preparation import jars
from tests.conftest import ROOT
from tests.packaging import install_wheel

STARTED = 600  # seconds: the kernels are compiled, which takes one on a machine that does nothing else


def environment_with_wheel(tmp_path: Path) -> Path:
    """A virtual environment with the wheel and links to the libraries, but without the clone. Returns its Python."""
    site = install_wheel(tmp_path)
    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (target,) = place.glob("lib/python*/site-packages")
    (installed,) = (Path(path) for path in sys.path if path.endswith("site-packages"))
    for entry in installed.iterdir():
        if not entry.name.startswith(("pastforward", "__editable__", "__pycache__", "distutils-precedence")):
            (target / entry.name).symlink_to(entry)
    for entry in site.iterdir():
        if entry.name != "bin":
            entry.rename(target / entry.name)
    return place / "bin" / "python"


def _repository(tmp_path: Path) -> str:
    files = tmp_path / "repository"
    for jar in jars.locked("kafka"):
        file = files / jar.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(ROOT / ".jars" / "kafka" / jar.name)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(files)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.mark.soak
@pytest.mark.broker
def test_the_wheel_starts_from_an_empty_directory(tmp_path: Path) -> None:
    python = environment_with_wheel(tmp_path)
    here = tmp_path / "empty"
    here.mkdir()
    home = tmp_path / "home"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PASTFORWARD_")}
    given = {
        **kept,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "PASTFORWARD_MAVEN_REPOSITORY": _repository(tmp_path),
    }
    command = [str(python), "-m", "pastforward"]
    with (tmp_path / "up.log").open("wb") as log:
        up = subprocess.Popen([*command, "up"], cwd=here, env=given, stdout=subprocess.PIPE, stderr=log)
    assert up.stdout is not None
    killer = threading.Timer(STARTED, up.kill)
    killer.start()
    try:
        said = up.stdout.readline().decode()
        assert said.startswith("bootstrap.servers="), (tmp_path / "up.log").read_text()
        for arguments in (
            ["publish", "--topic", "1.4.2", "kind=accident", "severity=4"],
            ["subscribe", "--topic", "1.4", "--subscriber", "anna", "--from", "-10m", "--where", "severity >= 3"],
        ):
            subprocess.run([*command, *arguments], cwd=here, env=given, check=True, timeout=60)
        watch = [*command, "watch", "--since", "-10m", "--json", "--count", "1"]
        shown = subprocess.run(watch, cwd=here, env=given, capture_output=True, text=True, check=False, timeout=60)
        assert '"phase": "past"' in shown.stdout.replace('":"', '": "'), shown
        # the second start prepares nothing
        up.send_signal(signal.SIGTERM)
        assert up.wait(60) == 0
        started = (tmp_path / "up.log").read_text()
        assert "kernels compiled" in started
        with (tmp_path / "again.log").open("wb") as log:
            up = subprocess.Popen([*command, "up"], cwd=here, env=given, stdout=subprocess.PIPE, stderr=log)
        assert up.stdout is not None
        assert up.stdout.readline().startswith(b"bootstrap.servers=")
        assert "kernels compiled" not in (tmp_path / "again.log").read_text()
        assert list(here.iterdir()) == []
    finally:
        killer.cancel()
        up.terminate()
        deadline = time.monotonic() + 60
        while up.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        up.kill()
