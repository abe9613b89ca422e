"""`pastforward bench`: names and values that there are not are errors which say what there is; nothing depends on the directory."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from pastforward.benchmarks import __main__ as commands
from pastforward.benchmarks import options
from pastforward.cli.bench import MODULES
from pastforward.settings import ROOT
from tests.conftest import Command


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_is_there_and_refuses_what_it_does_not_know(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, name, "--help") == 0
    assert f"pastforward bench {name}" in capsys.readouterr().out
    assert run(monkeypatch, name, "--nonsense") == 2
    assert "--nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            "stream --only publications",
            "avro, json, drivers, fan-out, content, latency exactly-once, latency at-least-once, million",
        ),
        ("stream --scale 0", "write a number above 0"),
        ("stream --scale much", "write a number above 0"),
        ("rendezvous --only publications", "'schemes', 'change'"),
        ("rendezvous --scale -1", "write a number above 0"),
        ("history --only publications", "'ingest', 'backfill', 'compaction', 'narrow'"),
        ("history --scale nan", "write a number above 0"),
        ("matching --only range,publications", "there is no 'publications'; there are: equality, range"),
        ("matching --only ", "there are: equality, range"),
        ("matching --algorithms auto,quick", "there is no 'quick'; there are: "),
        ("state --only publications", "nothing begins with 'publications'; there are: "),
        ("state --scale 0", "write a number above 0"),
        ("state --cpu 4096", "invalid choice"),
        ("papers publications", "no figure 'publications'; there are "),
        ("papers --scale 3", "'quick', 'full'"),
        ("codecs --records 0", "--records"),
        ("codecs --seconds 0", "--seconds"),
        ("conditions publications", "publications"),
        ("routing publications", "publications"),
    ],
)
def test_a_name_or_value_that_there_is_not_is_an_error(
    arguments: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *arguments.split(" ")) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_the_jars_are_where_the_setting_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert options.settings_for(tmp_path).jars_dir == ROOT / ".jars"
    monkeypatch.setenv("PASTFORWARD_JARS_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PASTFORWARD_PARTITIONS", "7")
    assert options.settings_for(tmp_path).partitions == 4
    for name in ("stream", "rendezvous", "history"):
        assert run(monkeypatch, name) == 1
        said = capsys.readouterr().err
        assert f"no jars in {tmp_path / 'none'}" in said
        assert "Traceback" not in said


def test_results_do_not_go_to_whatever_directory_it_is() -> None:
    assert options.RESULTS == ROOT / "results"
    assert options.IMAGES == ROOT / "docs" / "img"


def test_a_benchmark_runs_from_a_directory_with_folders_of_the_same_names(command: Command, tmp_path: Path) -> None:
    for name in ("benchmarks", "pastforward", "columns", "state", "schemas", "matching", "streams"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(9)")
    done = command("bench", "codecs", "--records", "16", "--seconds", "0.001", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
