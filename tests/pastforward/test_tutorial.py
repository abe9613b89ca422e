"""The tutorial's blocks are files of a program: written down as they stand there, tested and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pastforward.broker import Broker
from tests.conftest import ROOT, StartWorker

PAGE = (ROOT / "docs/tutorial.md").read_text("utf-8")
MODELLING = (ROOT / "docs/modelling.md").read_text("utf-8")


def files_of(page: str) -> dict[str, str]:
    return dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", page, re.MULTILINE | re.DOTALL))


FILES = files_of(PAGE)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(directory: Path, *words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block_is_a_file() -> None:
    assert PAGE.count("\n```") == 2 * len(FILES)
    assert set(FILES) == {
        *("drivers.py", "test_drivers.py", "main.py", "billing.py", "typed.py", "later.py"),
    }


def test_its_tests_pass_in_memory(program: Path) -> None:
    (program / "conftest.py").write_text('pytest_plugins = ["pastforward.testing"]\n')  # where it is not installed
    said = run(
        program, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", "test_drivers.py"
    )
    assert "3 passed" in said


@pytest.mark.broker
def test_its_programs_run(program: Path, broker: Broker, start_worker: StartWorker) -> None:
    start_worker(topic_prefix="tutorial.", partitions=2).wait_ready()
    system = {"PASTFORWARD_BOOTSTRAP_SERVERS": broker.bootstrap, "PASTFORWARD_TOPIC_PREFIX": "tutorial."}
    assert run(program, "main.py", **system) == "live\nanna live\n"
    assert run(program, "billing.py", **system) == "True\n"
    assert run(program, "typed.py", **system) == "severity 2\n"
    assert run(program, "later.py", **system) == "live\n"


@pytest.mark.broker
def test_the_programs_about_modelling_run(tmp_path: Path, broker: Broker, start_worker: StartWorker) -> None:
    start_worker(topic_prefix="modelling.", partitions=2).wait_ready()
    system = {"PASTFORWARD_BOOTSTRAP_SERVERS": broker.bootstrap, "PASTFORWARD_TOPIC_PREFIX": "modelling."}
    files = files_of(MODELLING)
    assert MODELLING.count("\n```") == 2 * len(files)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run(tmp_path, "places.py", **system) == "Point(lon=8.55, lat=47.37)\n2.1.3.3 8\n"
    assert run(tmp_path, "moving.py", **system) == ""
    assert run(tmp_path, "names.py", **system) == "True roads/I-95/exit-4\n['roads/I-95', 'roads/I-95/exit-4']\n"
