"""What the benchmarks have in common: where results go, what may be asked of them, and settings that nobody's environment changes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click

from pastforward.settings import CLONE, PREFIX, ROOT, Settings, load

RESULTS: Final = (ROOT if CLONE else Path.cwd()) / "results"
IMAGES: Final = ROOT / "docs" / "img" if CLONE else RESULTS / "img"


def settings_for(directory: Path, **flags: Any) -> Settings:
    """Defaults, whatever is set here; but the jars are where the settings say."""
    return load({"data_dir": directory, "jars_dir": load().jars_dir, **flags}, environment={})


def environment() -> dict[str, str]:
    """Of a process that is measured: without settings of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def beginning(names: Iterable[str], only: str) -> list[str]:
    """The names that begin so. A ValueError lists them if there is none."""
    known = list(names)
    found = [name for name in known if name.startswith(only)]
    if not found:
        raise ValueError(f"nothing begins with {only!r}; there are: {', '.join(known)}")
    return found


def listed(names: Iterable[str], text: str) -> list[str]:
    """Names with commas between them. A ValueError lists those that there are if one is not among them."""
    known = list(names)
    asked = [name.strip() for name in text.split(",")]
    for name in asked:
        if name not in known:
            raise ValueError(f"there is no {name!r}; there are: {', '.join(known)}")
    return asked


def share(text: str) -> float:
    """A part of the full size."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of the full size: write a number above 0, such as 0.1")
    return found


class Share(click.ParamType):
    """The same for click."""

    name = "share"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        try:
            return share(str(value))
        except argparse.ArgumentTypeError as error:
            self.fail(str(error), parameter, context)
