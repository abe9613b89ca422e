"""Whose directory it is, who has it open, and what happens to a damaged one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pastforward.state import DirectoryError, InUseError, UnusableError, open_store, set_aside
from pastforward.state.directory import Directory


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def make(path: Path, rows: int = 200) -> None:
    with open_store(path) as store:
        for number in range(rows):
            store.publish(number, "1", time=number, payload=os.urandom(100))
        store.commit(rows)


def test_a_foreign_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    before = contents(tmp_path)
    with pytest.raises(DirectoryError, match=f"{tmp_path} is not a store: it holds thesis.txt"):
        open_store(tmp_path)
    with pytest.raises(DirectoryError) as caught:
        open_store(tmp_path)
    assert not isinstance(caught.value, UnusableError)  # nobody may move it away
    assert contents(tmp_path) == before
    with pytest.raises(DirectoryError, match=r"thesis.txt is a file"):
        open_store(tmp_path / "thesis.txt")


def test_another_layout_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "s", 1)
    with pytest.raises(UnusableError, match="layout 'dual'"):
        open_store(tmp_path / "s", layout="two")


@pytest.mark.parametrize("what", ["CURRENT", "MANIFEST", "STORE", "sst", "IDENTITY-of-nobody"])
def test_a_damaged_store_is_named_and_left_alone(tmp_path: Path, what: str) -> None:
    path = tmp_path / "s"
    make(path)
    open_store(path).close()  # what was logged goes to tables
    for file in (path / "db").iterdir():
        if what in file.name:
            data = bytearray(file.read_bytes())
            data[: len(data) // 2] = bytes(len(data) // 2)
            if what == "CURRENT":
                file.unlink()
            else:
                file.write_bytes(data)
    tables = {name for name in contents(path) if name.endswith(".sst")}
    if what == "IDENTITY-of-nobody":
        open_store(path).close()
        return
    with pytest.raises(UnusableError, match=f"{path} is damaged.*nothing was changed"):
        open_store(path)
    assert tables <= contents(path).keys()


def test_a_missing_family_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_store(path) as store:
        store.subscribe(1, "1", time=1)
        store.commit(1)
    from rocksdict import Options, Rdict

    names = Rdict.list_cf(str(path / "db"))
    database = Rdict(str(path / "db"), Options(raw_mode=True), {name: Options(raw_mode=True) for name in names})
    database.drop_column_family(next(name for name in names if name != "default"))
    database.close()
    with pytest.raises(UnusableError, match=r"column family both-.* is missing"):
        open_store(path)


def test_only_one_may_have_it_open(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_store(path), pytest.raises(InUseError, match=f"in use by pid {os.getpid()}"):
        open_store(path)
    script = f"import sys, state; s = state.open_store({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdin
    assert other.stdout
    try:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(InUseError, match=f"in use by pid {other.pid}") as caught:
            open_store(path)
        assert caught.value.pid == other.pid
    finally:
        other.stdin.close()
        other.wait()
    open_store(path).close()


def test_an_interrupted_making_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    (path / "db.unfinished").mkdir(parents=True)
    (path / "db.unfinished" / "MANIFEST-000001").write_bytes(b"half")
    make(path, 1)
    with open_store(path) as store:
        assert store.offset == 1


@pytest.mark.parametrize(
    "fault",
    [
        "IO error: No space left on device: While appending to file: /s/db/000008.log",
        "IO error: Permission denied: While opening a file for sequentially reading: /s/db/CURRENT",
        "IO error: Input/output error: While pread offset 0 len 4096: /s/db/000009.sst",
        "IO error: Too many open files: While open a file for random read: /s/db/000009.sst",
        "IO error: Read-only file system: While mkdir: /s/db",
    ],
)
def test_a_fault_of_the_machine_is_no_damage(tmp_path: Path, fault: str) -> None:
    error = Directory(tmp_path, "dual").damaged(Exception(fault))
    assert not isinstance(error, UnusableError)
    assert fault in str(error)
    assert "open it again" in str(error)


@pytest.mark.parametrize(
    "damage",
    [
        "Corruption: Sst file size mismatch: /s/db/000009.sst",
        "IO error: No such file or directory: While open a file for random read: /s/db/000009.sst",
        "Invalid argument: /s/db: does not exist (create_if_missing is false)",
    ],
)
def test_damage_makes_a_store_unusable(tmp_path: Path, damage: str) -> None:
    assert isinstance(Directory(tmp_path, "dual").damaged(Exception(damage)), UnusableError)


def test_the_last_store_that_was_set_aside_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a [1].0"  # nothing that a pattern of names would take for more
    other = tmp_path / "a 1.0"
    make(other, 1)
    set_aside(other)
    for rows in (1, 2):
        make(path, rows)
        place, size = set_aside(path)
        assert not path.exists()
        assert size > 0
        with open_store(place) as store:
            assert store.offset == rows
    assert len(list(tmp_path.iterdir())) == 2
