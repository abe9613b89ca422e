"""What the documentation shows is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from pastforward.state import bounds, cell_of
from pastforward.state.keys import encode_key, subtree
from pastforward.state.operations import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "state.md").read_text()


def test_the_session_runs_as_shown(tmp_path: Path) -> None:
    session = re.search(r"```python\n(.*?)```", PAGE, re.S)
    assert session
    text = session[1].replace("/tmp/demo", str(tmp_path / "demo"))
    test = doctest.DocTestParser().get_doctest(text, {}, "docs/state.md", None, None)
    runner = doctest.DocTestRunner()
    runner.run(test, clear_globs=False)
    test.globs["store"].close()
    assert runner.summarize(verbose=False) == (0, len(test.examples))


def test_the_bytes_are_those_of_the_picture() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(" │ 11 01"))
    assert bytes.fromhex(row.replace("│", "")) == encode_key("1.4.2", "publication", 100, 7)
    low, high = subtree("1.4")
    assert f"[{low.hex(' ')}, {high.hex(' ')})" in PAGE


def test_the_cell_of_the_picture() -> None:
    assert cell_of((-30, 40), 3) == "1.4.2"
    assert bounds("1.4.2") == (-45, 22.5, 0, 45)


def test_every_column_is_explained() -> None:
    told = set(re.findall(r"`(\w+)`", PAGE[PAGE.index("## Columns of operations") : PAGE.index("## Figures")]))
    assert told >= COLUMNS
