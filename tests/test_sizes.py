"""Files, classes, functions and kernels that a reader can hold in the head. What is larger stands here, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.packaging import ROOT, project

FILE, CLASS, FUNCTION, KERNEL = 500, 300, 60, 100  # lines
PARAMETERS, DEPTH = 8, 5  # of a kernel
DECORATORS: Final = {"kernel", "bare", "inner", "inlined", "intrinsic"}

# Whole folders, by the way they are built.
FOLDERS: Final = {
    "papers/": "algorithms as the papers describe them, for comparison only",
    "matching/blocks/": "a search passes places in the same few structures from level to level, in registers",
    "state/": "memory and disk of the past: what a chunk does to them is one pass over many columns",
}
EXCEPTIONS: Final = {
    "benchmarks/stream.py": "one figure after the other, in the order of the table that they fill",
    "benchmarks/stream.py::Bench": "the same",
    "benchmarks/codecs.py::contenders": "a table of who does what: it is data",
    "streams/matcher/engine.py::Engine": "the state of a partition: chunk, searches, and three ways to begin, over one set of parts",
}


class Size(NamedTuple):
    place: str
    what: str
    found: int
    limit: int

    @property
    def said(self) -> str:
        return f"{self.place}: {self.found} {self.what}, at most {self.limit}"


def sizes(source: str, path: str) -> Iterator[Size]:
    yield Size(path, "lines", source.count("\n"), FILE)
    yield from _within(ast.parse(source), f"{path}::")


def _within(node: ast.AST, before: str) -> Iterator[Size]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield Size(before + child.name, "lines", _lines(child), CLASS)
            yield from _within(child, f"{before}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            place = before + child.name
            if DECORATORS.intersection(map(_name, child.decorator_list)):
                yield Size(place, "lines", _lines(child), KERNEL)
                yield Size(place, "parameters", len(child.args.posonlyargs + child.args.args), PARAMETERS)
                yield Size(place, "levels", _depth(child.body), DEPTH)
            else:
                yield Size(place, "lines", _lines(child), FUNCTION)
            yield from _within(child, f"{place}.")
        else:
            yield from _within(child, before)


def _lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _depth(body: list[ast.stmt]) -> int:
    """Loops and conditions within each other; `elif` is no level of its own."""
    deepest = 0
    for node in body:
        if isinstance(node, ast.If):
            chained = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
            otherwise = _depth(node.orelse) + (0 if chained or not node.orelse else 1)
            deepest = max(deepest, 1 + _depth(node.body), otherwise)
        elif isinstance(node, ast.For | ast.While | ast.With):
            deepest = max(deepest, 1 + _depth(node.body))
    return deepest


def _product() -> Iterator[Path]:
    folders = {*project()["tool"]["setuptools"]["package-dir"].values(), "pastforward", "papers", "benchmarks"}
    for folder in sorted(folders):
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_nothing_is_larger_than_a_reader_can_hold() -> None:
    large = []
    excused = set()
    for file in _product():
        path = file.relative_to(ROOT).as_posix()
        for size in sizes(file.read_text("utf-8"), path):
            if size.found <= size.limit or path.startswith(tuple(FOLDERS)):
                continue
            if size.place in EXCEPTIONS:
                excused.add(size.place)
            else:
                large.append(size.said)
    assert not large, "split them, or list them here with a reason:\n" + "\n".join(large)
    assert not EXCEPTIONS.keys() - excused, f"no longer large, take them off the list: {EXCEPTIONS.keys() - excused}"


def test_what_is_too_large_is_found() -> None:
    kernel = "@kernel\ndef f(" + ", ".join(f"a{i}" for i in range(9)) + "):\n"
    nested = "".join("    " * (level + 1) + f"for i{level} in a0:\n" for level in range(6)) + "    " * 7 + "pass\n"
    long = "class C:\n    def g(self):\n" + "        pass\n" * 60
    found = [size.said for size in sizes(kernel + nested + long, "f.py") if size.found > size.limit]
    assert found == [
        "f.py::f: 9 parameters, at most 8",
        "f.py::f: 6 levels, at most 5",
        "f.py::C.g: 61 lines, at most 60",
    ]
