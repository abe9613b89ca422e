from __future__ import annotations

import os
from pathlib import Path

import pytest

from pastforward.columns import cache


def test_a_kernel_is_dropped_when_a_file_that_it_reads_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever folder that file is."""
    monkeypatch.setattr(cache, "_KNOWN", tmp_path / "imports.json")
    places = {"part": tmp_path / "part", "ground": tmp_path / "ground"}
    texts = {
        "ground/__init__.py": "",
        "ground/low.py": "",
        "part/__init__.py": "",
        "part/middle.py": "from pastforward.ground.low import f\n",
        "part/high.py": "from pastforward.part import middle\n",
        "part/apart.py": "import math\n",
    }
    for folder in places.values():
        (folder / "__pycache__").mkdir(parents=True)
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (100, 100))
    for name in ("ground/low", "part/middle", "part/high", "part/apart"):
        folder, stem = (tmp_path / name).parent, Path(name).stem
        for end in ("nbi", "1.nbc"):
            compiled = folder / "__pycache__" / f"{stem}.kernel-7.py311.{end}"
            compiled.touch()
            os.utime(compiled, (200, 200))
    assert cache.drop_stale(places) == []
    os.utime(tmp_path / "ground/low.py", (300, 300))
    dropped = cache.drop_stale(places)
    assert {file.name.split(".")[0] for file in dropped} == {"low", "middle", "high"}
    assert len(dropped) == 6
    assert not any(file.exists() for file in dropped)


def test_what_a_file_imports_is_read_again_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_KNOWN", tmp_path / "imports.json")
    folder = tmp_path / "part"
    (folder / "__pycache__").mkdir(parents=True)
    for name in ("low", "high"):
        (folder / f"{name}.py").write_text("")
        os.utime(folder / f"{name}.py", (100, 100))
    assert cache.drop_stale({"part": folder}) == []
    (folder / "high.py").write_text("from pastforward.part.low import f\n")
    os.utime(folder / "high.py", (150, 150))
    compiled = folder / "__pycache__" / "high.kernel-7.py311.nbi"
    compiled.touch()
    os.utime(compiled, (200, 200))
    assert cache.drop_stale({"part": folder}) == []
    os.utime(folder / "low.py", (300, 300))
    assert cache.drop_stale({"part": folder}) == [compiled]


def test_every_package_of_ours_with_kernels_is_guarded() -> None:
    beside = {
        folder.name
        for folder in Path(cache.__file__).parents[1].iterdir()
        if (folder / "__init__.py").is_file() and folder.name not in ("pastforward", "tests")
    }
    root = Path(cache.__file__).parents[1]
    sources = {name: [file.read_text("utf-8") for file in (root / name).rglob("*.py")] for name in beside}
    compiled = {
        name for name, texts in sources.items() if any("pastforward.columns.kernel import" in text for text in texts)
    }
    assert compiled <= set(cache.PACKAGES) == set(cache.folders()) <= beside
