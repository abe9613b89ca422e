"""One importable name, whatever lies beside the program that uses it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging import ROOT, install_wheel, project

# Takes each module of the product, and says which file was loaded under two names.
EVERYTHING = """
import importlib, pkgutil, sys
import pastforward

def modules(package):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        yield found.name
        if found.ispkg:
            yield from modules(importlib.import_module(found.name))

names = sys.argv[1:]
for package in [pastforward, *(importlib.import_module(f"pastforward.{name}") for name in names)]:
    for name in modules(package):
        if not name.endswith(("__main__", ".daemon")):
            importlib.import_module(name)
files = {}
for name, module in list(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if file and name.split(".")[0] in ("pastforward", *names):
        files.setdefault(file, []).append(name)
twice = [found for found in files.values() if len(found) > 1]
assert len(files) > 200, len(files)
assert not twice, twice
"""

# A user's own program, beside files and folders that are named as ours are.
PROGRAM = """
import schemas, state, matching, streams, columns, papers
assert schemas.MINE == state.MINE == matching.MINE == streams.MINE == columns.MINE == papers.MINE == 1
import pastforward
from pastforward.matching import Condition, Index
from pastforward.state import open_store
from pastforward.schemas import Publication, decode_publication, encode
from pastforward import Client
index = Index()
index.add("s1", Condition.parse("severity >= 3"))
assert index.match({"severity": 4}) == ["s1"]
assert pastforward.__file__.startswith(SITE)
try:
    Index(algorithm="static")
except ValueError as error:
    assert "pip install 'pastforward[papers]'" in str(error), error
else:
    raise AssertionError("the papers are not in the wheel")
"""


def packages(folder: Path) -> set[str]:
    return {".".join(file.parent.relative_to(folder.parent).parts) for file in folder.rglob("__init__.py")}


def test_every_package_is_named_in_the_project() -> None:
    setuptools = project()["tool"]["setuptools"]
    there = packages(ROOT / "pastforward")
    for folder in setuptools["package-dir"].values():
        there |= {f"pastforward.{name}" for name in packages(ROOT / folder)}
    assert set(setuptools["packages"]) == there
    for folder in ("papers", "benchmarks"):
        there = {f"pastforward.{name}" for name in packages(ROOT / folder)}
        assert set(project(folder)["tool"]["setuptools"]["packages"]) == there
        assert project(folder)["project"]["version"] == project()["project"]["version"]


def test_nothing_of_ours_is_imported_by_a_bare_name() -> None:
    """From the root of the clone it would be found, and loaded a second time."""
    names = "|".join([*project()["tool"]["setuptools"]["package-dir"].values(), "papers", "benchmarks"])
    bare = re.compile(rf"^\W*(from ({names})(\.\w+)* import|import ({names})\b)", re.MULTILINE)
    files = [*ROOT.glob("*/**/*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    ours = [file for file in files if not file.relative_to(ROOT).parts[0].startswith((".", "build"))]
    assert len(ours) > 400
    assert [str(file) for file in ours if file != Path(__file__) and bare.search(file.read_text("utf-8"))] == []


@pytest.mark.parametrize("directory", ["clone", "elsewhere"])
def test_no_module_is_loaded_under_two_names(tmp_path: Path, directory: str) -> None:
    names = [*project()["tool"]["setuptools"]["package-dir"].values(), "papers", "benchmarks"]
    where = ROOT if directory == "clone" else tmp_path
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING, *names], cwd=where, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_adds_one_name_and_a_program_may_have_files_of_ours(tmp_path: Path) -> None:
    site = install_wheel(tmp_path)
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info" and path.name != "bin"} == {
        "pastforward"
    }
    assert not (site / "pastforward" / "papers").exists()
    assert not (site / "pastforward" / "benchmarks").exists()
    assert list((site / "pastforward" / "schemas").glob("*.avsc"))
    assert list((site / "pastforward" / "schemas" / "history").glob("*.avsc"))
    assert (site / "pastforward" / "jars" / "kafka" / "pom.xml").is_file()
    program = tmp_path / "program"
    program.mkdir()
    for name in ("schemas", "matching", "columns"):
        (program / f"{name}.py").write_text("MINE = 1\n")
    for name in ("state", "streams", "papers"):
        (program / name).mkdir()
        (program / name / "__init__.py").write_text("MINE = 1\n")
    (program / "program.py").write_text(f"SITE = {str(site)!r}\n{PROGRAM}")
    # Without the virtual environment's own folder, where the clone is installed: with links to all else that is there.
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    (installed,) = (Path(path) for path in sys.path if path.endswith("site-packages"))
    for entry in installed.iterdir():
        if not entry.name.startswith(("pastforward", "__editable__", "__pycache__")):
            (libraries / entry.name).symlink_to(entry)
    add = f"import sys; sys.path[:0] = {[str(program), str(site), str(libraries)]!r}"
    run = f"{add}; import runpy; runpy.run_path({str(program / 'program.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-S", "-c", run], cwd=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
