"""What a first start prepares: jars with their checksums, kernels for this processor."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from pastforward.errors import UserError
from pastforward.preparation import jars, kernels
from pastforward.settings import Settings, load
from tests.conftest import ROOT

QUIET = Console(file=StringIO())


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A Maven repository that is served over HTTP; it has the jars of Spark."""
    files = tmp_path / "repository"
    for jar in jars.locked("spark"):
        file = files / jar.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(ROOT / ".jars" / "spark" / jar.name)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(files)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield files, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


def settings_of(tmp_path: Path, url: str | None) -> Settings:
    return load({"jars_dir": tmp_path / "jars", "maven_repository": url}, environment={})


@pytest.mark.parametrize("of", ["kafka", "spark"])
def test_the_lock_names_what_the_pom_asks_for(of: str) -> None:
    locked = jars.locked(of)
    assert {jar.name for jar in locked} == {file.name for file in (ROOT / ".jars" / of).glob("*.jar")}
    for jar in locked:
        assert hashlib.sha256((ROOT / ".jars" / of / jar.name).read_bytes()).hexdigest() == jar.sha256, jar
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    pom = ElementTree.parse(jars.POMS / of / "pom.xml")
    for asked in pom.iterfind("m:dependencies/m:dependency", space):
        group, name, version = (asked.findtext(f"m:{part}", "", space) for part in ("groupId", "artifactId", "version"))
        if version.startswith("${"):
            version = pom.findtext(f"m:properties/m:{version[2:-1]}", "", space)
        assert f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}.jar" in {jar.path for jar in locked}


def test_jars_come_from_a_repository(tmp_path: Path, repository: tuple[Path, str]) -> None:
    settings = settings_of(tmp_path, repository[1])
    assert jars.prepare(settings, "spark", QUIET)
    there = {file.name for file in (tmp_path / "jars" / "spark").glob("*.jar")}
    assert there == {jar.name for jar in jars.locked("spark")}
    assert not jars.prepare(settings, "spark", QUIET)


def test_fetching_that_was_cut_off_goes_on(tmp_path: Path, repository: tuple[Path, str]) -> None:
    files, url = repository
    gone = files / jars.locked("spark")[3].path
    kept = gone.readlink()
    gone.unlink()
    settings = settings_of(tmp_path, url)
    with pytest.raises(UserError, match=f"cannot fetch .*{gone.name}.*MAVEN_REPOSITORY"):
        jars.prepare(settings, "spark", QUIET)
    gone.symlink_to(kept)
    assert jars.prepare(settings, "spark", QUIET)
    assert jars.missing(settings, "spark") == []


def test_a_file_that_is_not_what_was_released_is_refused(tmp_path: Path, repository: tuple[Path, str]) -> None:
    files, url = repository
    jar = jars.locked("spark")[0]
    (files / jar.path).unlink()
    (files / jar.path).write_bytes(b"something else")
    settings = settings_of(tmp_path, url)
    with pytest.raises(UserError, match=jar.sha256):
        jars.prepare(settings, "spark", QUIET)
    assert not (tmp_path / "jars" / "spark" / jar.name).exists()


def test_without_maven_and_repository_an_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"install it .*PASTFORWARD_MAVEN_REPOSITORY.*PASTFORWARD_JARS_DIR"):
        jars.prepare(settings_of(tmp_path, None), "kafka", QUIET)


def test_a_folder_that_somebody_has_filled_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "jars" / "kafka"
    folder.mkdir(parents=True)
    (folder / "kafka_2.13-9.9.9.jar").write_bytes(b"")
    assert not jars.prepare(settings_of(tmp_path, "http://127.0.0.1:1/"), "kafka", QUIET)


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that were compiled; nothing is."""
    done: list[str] = []
    monkeypatch.setattr(kernels, "_stamp", lambda: tmp_path / "kernels.json")
    monkeypatch.setattr(kernels.cache, "drop_stale", list)
    monkeypatch.setattr(
        kernels, "COMPILE", f"import sys; open({str(tmp_path / 'done')!r}, 'a').write(sys.argv[1] + ' ')"
    )
    monkeypatch.setattr(kernels, "_write", lambda *_: done.extend((tmp_path / "done").read_text().split()) or WRITE(*_))
    return done


WRITE = kernels._write


def test_kernels_are_compiled_once_for_a_processor(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kernels.prepare(QUIET)
    assert sorted(compiled) == sorted(f"pastforward.{step.module}" for step in kernels.PRODUCT)
    for step in kernels.PRODUCT:  # whose kernels a step calls, they are there before it
        for before in step.after:
            assert compiled.index(f"pastforward.{before}") < compiled.index(f"pastforward.{step.module}")
    compiled.clear()
    kernels.prepare(QUIET)
    assert compiled == []
    monkeypatch.setenv("NUMBA_CPU_NAME", "another")
    kernels.prepare(QUIET)
    assert len(compiled) >= len(kernels.PRODUCT)


def test_kernels_that_do_not_compile_are_an_error_with_their_message(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "COMPILE", "import sys; sys.exit('no such function')")
    with pytest.raises(UserError, match="no such function"):
        kernels.prepare(QUIET)
    assert not (tmp_path / "kernels.json").exists()


def test_a_torn_stamp_is_none(compiled: list[str], tmp_path: Path) -> None:
    (tmp_path / "kernels.json").write_text("{")
    kernels.prepare(QUIET)
    assert compiled
    assert json.loads((tmp_path / "kernels.json").read_text())["numba"]
