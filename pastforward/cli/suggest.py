"""Command groups that know what was meant by a name they do not have, and options whose values stand in their help."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import click


class Commands(click.Group):
    """A group that names the nearest command."""

    def __init__(self, *arguments: Any, homes: Mapping[str, tuple[str, str]] | None = None, **options: Any) -> None:
        """`homes`: commands that are imported when they are used, by name: the module and the name in it, and the line for the list."""
        super().__init__(*arguments, **options)
        self.group_class = Commands
        self._homes = homes or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._homes, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = self._homes.get(cmd_name)
        if home is not None and cmd_name not in self.commands:
            module, _, name = home[0].partition(":")
            self.add_command(getattr(import_module(module), name), cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self._homes:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._homes.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
                path = ctx.command_path
                raise click.UsageError(
                    f"No such command {args[0]!r}. {_advice(args[0], self.list_commands(ctx), path)}", ctx
                ) from error
            raise


def _advice(name: str, known: Iterable[str], path: str) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"Did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists all."
