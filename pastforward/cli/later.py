"""Commands whose part is not built yet: they say so, and exit with 2."""

from __future__ import annotations

import sys
from typing import NoReturn

import click


def not_built(name: str) -> NoReturn:
    click.echo(f"`pastforward {name}` is not built yet; see CHANGELOG.md for what is", err=True)
    sys.exit(2)
