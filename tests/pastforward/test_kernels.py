from __future__ import annotations

import os
from pathlib import Path

import pytest

from pastforward import kernels


def test_a_kernel_is_dropped_when_a_file_that_it_reads_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "ROOT", tmp_path)
    monkeypatch.setattr(kernels, "FOLDERS", ("part",))
    texts = {
        "part/__init__.py": "",
        "part/low.py": "",
        "part/middle.py": "from .low import f\n",
        "part/high.py": "from part import middle\n",
        "part/apart.py": "import math\n",
    }
    (tmp_path / "part" / "__pycache__").mkdir(parents=True)
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (100, 100))
    cache = tmp_path / "part" / "__pycache__"
    for stem in ("low", "middle", "high", "apart"):
        for end in ("nbi", "1.nbc"):
            (cache / f"{stem}.kernel-7.py311.{end}").touch()
            os.utime(cache / f"{stem}.kernel-7.py311.{end}", (200, 200))
    kernels.drop_stale()
    assert len(list(cache.iterdir())) == 8
    os.utime(tmp_path / "part/low.py", (300, 300))
    kernels.drop_stale()
    assert {file.name.split(".")[0] for file in cache.iterdir()} == {"apart"}
