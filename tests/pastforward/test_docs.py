"""The documents name what is there."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest

import pastforward
from pastforward import settings
from pastforward.broker import Broker
from pastforward.schemas import DeadLetter, Notification, Subscription
from tests.conftest import Command, StartWorker
from tests.outside import Outside

ROOT = Path(__file__).resolve().parents[2]
# of notifications, refusals and subscriptions: fields of the records, which docs/wire-format.md describes
FIELDS = {field.name for record in (Notification, Subscription, DeadLetter) for field in fields(record)} | {"record"}


def test_the_settings_page_lists_every_setting_with_its_description() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| .* \| (.*) \|$", (ROOT / "docs/settings.md").read_text(), re.MULTILINE))
    assert rows == {name.upper(): field.metadata["doc"] for name, field in settings.KNOWN.items()}


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def consoles(page: str) -> list[tuple[list[str], list[str]]]:
    """The commands that a page shows with what they print: words, lines."""
    found: list[tuple[list[str], list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ pastforward "):
                found.append((shlex.split(line)[2:], []))
            else:
                found[-1][1].append(line)
    return found


def without_times(lines: Iterable[str]) -> list[str]:
    return [re.sub(r"(\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d\.\d{3}", "TIME", line).rstrip() for line in lines]


@pytest.mark.broker
def test_the_auction_of_the_page_on_the_workers_prints_what_it_shows(
    broker: Broker, start_worker: StartWorker, command: Command, tmp_path: Path
) -> None:
    start_worker(topic_prefix="auction.", partitions=2, notification_format="json").wait_ready()
    environment = {
        "PASTFORWARD_BOOTSTRAP_SERVERS": broker.bootstrap,
        "PASTFORWARD_TOPIC_PREFIX": "auction.",
        "COLUMNS": "200",
    }

    def run(*words: str) -> list[str]:
        done = command(*words, environment=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    shown = consoles("docs/streams.md")
    offers = [line for _, lines in shown for line in lines if " best " in line]
    assert [words[0] for words, _ in shown] == ["publish", "subscribe", "subscribe", "watch", "unsubscribe", "explain"]
    outside = Outside(broker.bootstrap, "auction.")
    seen = 0
    for words, lines in shown:
        if words[0] == "watch":
            continue  # it runs beside the others, which change one offer each
        printed = run(*words)
        if words[0] == "publish":
            outside.stored(words[words.index("--id") + 1])  # the two inputs have no common order
        elif words[0] == "explain":
            assert without_times(printed) == without_times(lines)
        else:
            seen += 1
            assert without_times(run("watch", "--best", "--count", str(seen))) == without_times(offers[:seen])
    outside.close()
    assert seen == len(offers)


def test_every_public_name_says_what_it_is() -> None:
    """The reference is made of this."""
    silent = []
    for name in pastforward.__all__:
        each = getattr(pastforward, name)
        if not inspect.isclass(each):
            continue
        members = inspect.getmembers(each, lambda m: inspect.isfunction(m) or isinstance(m, property))
        for attribute, member in members:
            function = member.fget if isinstance(member, property) else member
            if attribute.startswith("_") or not str(getattr(function, "__module__", "")).startswith(
                "pastforward.client"
            ):
                continue
            if not inspect.getdoc(function) and attribute not in FIELDS:
                silent.append(f"{name}.{attribute}")
    assert silent == []
