"""The wheel without extras is the client alone: what it brings, what it can do, and what it says of the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pastforward import topics
from pastforward.broker import Broker
from pastforward.columns import extras
from pastforward.settings import load
from tests.packaging import ROOT, project

MOST = 150e6  # bytes that the client and all that it needs may take


def needed(requirements: list[str]) -> set[str]:
    """Names of the distributions that these need, directly or not."""
    found: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        wanted = waiting.pop()
        key = wanted.name.lower(), tuple(sorted(wanted.extras))
        if key in found:
            continue
        try:
            requires = distribution(wanted.name).requires or []
        except PackageNotFoundError:
            continue  # for another system or Python
        found.add(key)
        for line in requires:
            each = Requirement(line)
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(each)
    return {name for name, _ in found}


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A Python that has what `pip install pastforward` brings, as links, and how many bytes that is."""
    place = tmp_path_factory.mktemp("thin")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    size = 0
    for name in needed(project()["project"]["dependencies"]):
        for file in distribution(name).files or []:
            source = Path(str(file.locate()))
            top = file.parts[0]
            if top in ("..", "__pycache__") or not source.is_file():
                continue
            size += source.stat().st_size
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    product = site / "pastforward"
    product.mkdir()
    for source in (ROOT / "pastforward").iterdir():
        (product / source.name).symlink_to(source)
    for name, folder in project()["tool"]["setuptools"]["package-dir"].items():
        (product / name.partition(".")[2]).symlink_to(ROOT / folder)
    return place / "bin" / "python", size


def run(python: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PASTFORWARD_", "PYTHONPATH"))}
    return subprocess.run(
        [python, "-P", *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_client_alone_is_small(thin: tuple[Path, int]) -> None:
    assert 20e6 < thin[1] < MOST, f"{thin[1] / 1e6:.0f} MB"


def test_the_client_alone_has_none_of_the_large_libraries(thin: tuple[Path, int]) -> None:
    program = """
import importlib.util, json
import pastforward.cli
from pastforward import *
from pastforward.matching import Condition
from pastforward.schemas import decode_notification, encode
assert Condition.parse("overlaps(place, CIRCLE(1, 2, 300)) AND severity >= 3")
from pastforward import places
assert places.cell_of(Point(13.4, 52.5), 3) == "2.1.3"
found = {}
for package, name in (("matching", "Index"), ("schemas", "decode_publications"), ("state", "open_store"), ("spark_batch", "jobs")):
    try:
        getattr(importlib.import_module(f"pastforward.{package}"), name)
    except ImportError as error:
        found[package] = str(error)
print(json.dumps([found, [name for name in LIBRARIES if importlib.util.find_spec(name)]]))
"""
    libraries = [name for each in extras.LIBRARIES.values() for name in each]
    done = run(thin[0], "-c", f"LIBRARIES = {libraries}\n{program}")
    assert done.returncode == 0, done.stderr
    said, there = json.loads(done.stdout)
    assert there == []
    assert said.keys() == {"matching", "schemas", "state", "spark_batch"}
    for package, text in said.items():
        extra = "spark" if package == "spark_batch" else "worker"
        assert f"which is not installed: pip install 'pastforward[{extra}]'" in text, text


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["worker", "--bootstrap-servers", "127.0.0.1:1"], "worker"),
        (["up"], "worker"),
        (["demo"], "worker"),
        (["setup", "--no-spark"], "worker"),
        (["history", "query", "--where", "x = 1"], "spark"),
        (["routing", "propose", "--subscriptions", os.devnull, "--publications", os.devnull], "worker"),
        (["serve", "--bootstrap-servers", "127.0.0.1:1"], "serve"),
        (["bench", "matching"], "bench"),
    ],
    ids=lambda given: given if isinstance(given, str) else given[0],
)
def test_a_command_that_needs_an_extra_says_which(
    thin: tuple[Path, int], tmp_path: Path, command: list[str], extra: str
) -> None:
    done = run(
        thin[0],
        *("-m", "pastforward", *command),
        PASTFORWARD_DATA_DIR=str(tmp_path),
        PASTFORWARD_JARS_DIR=str(ROOT / ".jars"),
    )
    assert done.returncode == 1
    assert f"pip install 'pastforward[{extra}]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.broker
def test_a_schema_registry_needs_an_extra(thin: tuple[Path, int], broker: Broker, tmp_path: Path) -> None:
    done = run(
        thin[0],
        *("-m", "pastforward", "publish", "x=1"),
        PASTFORWARD_BOOTSTRAP_SERVERS=broker.bootstrap,
        PASTFORWARD_SCHEMA_REGISTRY_URL="http://127.0.0.1:1",
        PASTFORWARD_DATA_DIR=str(tmp_path),
    )
    assert done.returncode == 1
    assert "SCHEMA_REGISTRY_URL needs" in done.stderr
    assert "pip install 'pastforward[registry]'" in done.stderr


@pytest.mark.broker
def test_the_client_alone_sends_and_lists(thin: tuple[Path, int], broker: Broker, tmp_path: Path) -> None:
    prefix = f"thin-{uuid.uuid4().hex[:8]}."
    settings = load({"bootstrap_servers": broker.bootstrap, "topic_prefix": prefix, "partitions": 1}, environment={})
    topics.ensure(settings, topics.connect(settings, broker.bootstrap))
    environment = {
        "PASTFORWARD_BOOTSTRAP_SERVERS": broker.bootstrap,
        "PASTFORWARD_TOPIC_PREFIX": prefix,
        "PASTFORWARD_DATA_DIR": str(tmp_path),
    }
    for command in (
        ["publish", "--topic", "1.4", "kind=accident", "severity=4"],
        ["subscribe", "--id", "s1", "--subscriber", "anna", "--topic", "1.4", "--where", "severity >= 3"],
    ):
        done = run(thin[0], "-m", "pastforward", *command, **environment)
        assert done.returncode == 0, done.stderr
    listed = run(thin[0], "-m", "pastforward", "subscriptions", "list", "--json", **environment)
    assert listed.returncode == 0, listed.stderr
    assert '"s1"' in listed.stdout
