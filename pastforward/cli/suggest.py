"""Command groups that know what was meant by a name they do not have, and options whose values stand in their help."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import click


class Commands(click.Group):
    """A group that names the nearest command."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.group_class = Commands

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
                path = ctx.command_path
                raise click.UsageError(
                    f"No such command {args[0]!r}. {_advice(args[0], self.commands, path)}", ctx
                ) from error
            raise


def _advice(name: str, known: Iterable[str], path: str) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"Did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists all."
