"""Settings as flags: every command names the ones that concern it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from pastforward import settings, topics
from pastforward.client import Client
from pastforward.settings import Settings

CONNECTION: Final = ("bootstrap_servers", "topic_prefix", "data_dir", "schema_registry_url")
WORKER: Final = tuple(settings.KNOWN)


@contextmanager
def open_client(chosen: Settings) -> Iterator[Client]:
    """A client of a broker that answers and has the topics: what is missing is said at once, in a sentence."""
    with Client(settings=chosen) as client:
        there = topics.existing(topics.connect(chosen, client.bootstrap_servers))
        topics.check_there(chosen, client.bootstrap_servers, there)
        yield client


def with_settings(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a flag for each named setting, and calls the command with the loaded `Settings` as its first argument."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*arguments: Any, config: Path | None, **given: Any) -> Any:
            flags = {name: given.pop(name) for name in names}
            return command(settings.load(flags, file=config), *arguments, **given)

        wrapped: Callable[..., Any] = run
        for name in reversed(names):
            flag = "--" + name.replace("_", "-")
            known = settings.KNOWN[name].metadata
            parse = known["parse"]
            values = f"[{'|'.join(parse.choices)}]" if isinstance(parse, settings.OneOf) else "…"
            wrapped = click.option(flag, name, metavar=values, help=known["doc"])(wrapped)
        return click.option("--config", type=click.Path(path_type=Path), help="Settings file (pastforward.toml).")(
            wrapped
        )

    return decorate


def as_flags(chosen: Settings, **changed: Any) -> list[str]:
    """The flags that give another process the same settings."""
    flags = []
    for name in settings.KNOWN:
        value = changed.get(name, getattr(chosen, name))
        if value is None or (name not in changed and chosen.sources.get(name) == "default"):
            continue
        flags += ["--" + name.replace("_", "-"), settings.KNOWN[name].metadata["show"](value)]
    return flags
