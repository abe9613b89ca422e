"""The commands of `docs/history.md`, as a new user types them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark_batch.conftest import ROOT

pytestmark = pytest.mark.broker


def commands() -> list[str]:
    page = (ROOT / "docs" / "history.md").read_text("utf-8")
    block = page.partition("## From nothing to a backfilled notification\n```\n")[2].partition("```")[0]
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


@contextmanager
def running(line: str, environment: dict[str, str], cwd: Path) -> Iterator[None]:
    """A command that stays, from the moment it says that it is ready."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {line}"], env=environment, cwd=cwd, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert any(said.startswith("bootstrap.servers=") for said in process.stdout)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.mark.timeout(900)
def test_five_commands_from_nothing_to_a_backfilled_notification(tmp_path: Path) -> None:
    up, *rest = commands()
    assert len(rest) == 4
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PASTFORWARD_JARS_DIR": str(ROOT / ".jars"),
        "PASTFORWARD_WEB_PORT": "0",  # another test may have the usual one
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # short jobs: compiling them well would take longer
    }
    said = []
    with running(up, environment, tmp_path):
        for line in rest:
            done = subprocess.run(
                ["bash", "-c", line],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            said.append(done.stdout)
    assert "ingested 1 publications" in said[2]
    assert "answered" in said[2]
    assert all(word in said[3] for word in ("backfill", "s", "yesterday"))
