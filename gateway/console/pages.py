"""The pages that ask and act: subscriptions, try, explain, dead letters, auctions, topics."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote

import orjson
from starlette.responses import RedirectResponse, Response

from pastforward.client import Instant, Standing
from pastforward.client.fields import condition_of, letter_fields, record_fields, subscription_fields, trial_fields
from pastforward.client.moments import now_micros
from pastforward.errors import PastforwardError
from pastforward.gateway.api import inquiries, letters, subscriptions
from pastforward.gateway.api.times import instant_of, moment_of
from pastforward.gateway.console.live import CARDS, tree_of
from pastforward.gateway.console.render import PROGRAM, call_of, command, page
from pastforward.gateway.context import Asked
from pastforward.gateway.idempotency import made_id
from pastforward.gateway.openapi import document
from pastforward.gateway.problems import Problem, problem_of
from pastforward.matching import Condition, ConditionError
from pastforward.schemas import Notification, SchemaError
from pastforward.schemas.acceptance import accept_subscription
from pastforward.schemas.records import Subscription
from pastforward.topics import Topics

SECOND: Final = 1_000_000  # microseconds
LATELY: Final = 200  # notifications that a page shows
SHOWN: Final = 50


def _can_pause() -> bool:
    """Whether the workers take a subscription that is paused."""
    try:
        accept_subscription(Subscription("any", "any", paused=True))
    except SchemaError:
        return False
    return True


PAUSABLE: Final = _can_pause()


async def overview(asked: Asked) -> Response:
    view = await asked.request.app.state.numbers.now()
    cards = [(name, label, view["cards"][name]) for name, label in CARDS]
    given = {"view": view, "cards": cards, "command": command("status")}
    python = f"{PROGRAM}for each in client.subscriptions():\n        print(each)"
    return page(asked, "overview.html", "Overview", python=python, **given)


async def map_(asked: Asked) -> Response:
    python = f"{PROGRAM}for notification in client.notifications():\n        print(notification)"
    return page(asked, "map.html", "Map", command=command("watch"), python=python)


def window_of(each: Standing, now: int) -> dict[str, Any]:
    """Its window on a line, with now, and a little room on both sides."""
    begin, end = each.starts_at.micros, None if each.ends_at is None else each.ends_at.micros
    left, right = min(begin, now), max(now if end is None else end, now)
    room = (right - left) // 8 + SECOND
    left, right = left - room, right + room
    span = right - left
    last = right if end is None else end
    return {
        "id": each.subscription_id,
        "subscriber": each.subscriber_id,
        "topic": ", ".join(subscriptions.topics_of(each.record)),
        "where": condition_of(each),
        "state": each.state,
        "starts": each.starts_at.strftime("%Y-%m-%d %H:%M:%S"),
        "ends": "no end" if each.ends_at is None else each.ends_at.strftime("%Y-%m-%d %H:%M:%S"),
        "left": round(100 * (begin - left) / span, 2),
        "width": max(0.5, round(100 * (last - begin) / span, 2)),
        "now": round(100 * (now - left) / span, 2),
    }


async def listed(asked: Asked) -> Response:
    found, following = await asked.gateway.call(subscriptions.find, asked)
    now = now_micros()
    words = {name: asked.text(name) or "" for name in ("q", "topic", "state")}
    return page(
        asked,
        "subscriptions.html",
        "Subscriptions",
        found=[window_of(each, now) for each in found[:SHOWN]],
        next=found[SHOWN - 1].subscription_id if len(found) > SHOWN else following,
        total=f"{asked.gateway.standings.count(asked.identity.name):,}",
        asked=words,
        command=command("subscriptions", "list", state=words["state"]),
        python=call_of("client.subscriptions"),
    )


async def one(asked: Asked) -> Response:
    found = subscriptions.seen(asked, asked.path_id)
    said = None
    if asked.request.method == "POST":
        said = await _act(asked, found)
        if said is None:
            return RedirectResponse(f"{asked.request.scope.get('root_path', '')}/subscriptions", 303)
        found = subscriptions.seen(asked, asked.path_id)
    notifications = await lately(asked, found.subscriber_id, found.subscription_id)
    return page(
        asked,
        "subscription.html",
        found.subscription_id,
        said=said,
        each=window_of(found, now_micros()),
        fields=subscription_fields(found),
        notifications=notifications,
        can_pause=PAUSABLE,
        command=command("subscriptions", "show", found.subscription_id),
        python=call_of("client.subscription", found.subscription_id),
    )


async def _act(asked: Asked, found: Standing) -> str | None:
    form = await asked.request.form(max_fields=10)
    what = form.get("do")
    if what == "withdraw":
        await subscriptions.end(asked, found)
        return None
    if what in ("pause", "resume"):
        await subscriptions.apply(asked, found, {"paused": what == "pause"})
        return f"{what}d"
    if what == "end":
        await subscriptions.apply(asked, found, {"ends_at": Instant.of(now_micros())})
        return "ended"
    if what == "extend":
        end = instant_of(form.get("ends_at"), "ends_at")
        await subscriptions.apply(asked, found, {"ends_at": end})
        return "it ends " + ("never" if end is None else f"at {end:%Y-%m-%d %H:%M:%S}")
    raise Problem(400, "bad-request", f"there is nothing called {what!r} to do")


async def lately(asked: Asked, recipient: str, name: str | None) -> list[dict[str, Any]]:
    """What a recipient was notified of in the last hour, the latest first."""
    found = await asked.gateway.call_dear(_read_lately, asked, recipient)
    chosen = [each for each in found if name is None or each.subscription_id == name][-SHOWN:]
    return [
        {
            "at": f"{Instant.of(each.matched_at):%H:%M:%S}",
            "phase": each.phase,
            "publication_id": each.publication_id,
            "content": _content(each),
        }
        for each in reversed(chosen)
    ]


def _read_lately(asked: Asked, recipient: str | None) -> list[Notification]:
    client = asked.gateway.client
    with client.notifications(recipient, since="-1h") as stream:
        end = client.offsets.ends(Topics(asked.gateway.settings.topic_prefix).notifications, tuple(stream.positions))
        found: list[Notification] = []
        while any(stream.positions[p] < at for p, at in end.items()):
            taken = stream.take(1000, 0.5)
            found = [*found, *(each.record for each in taken)][-100 * LATELY :]
            if not taken and all(stream.positions[p] >= at - 1 for p, at in end.items()):
                break
    return found


def _content(record: Notification) -> str:
    if record.content is None:
        return ""
    fields = orjson.loads(orjson.dumps(record_fields_of(record)))
    return " ".join(f"{name}={value}" for name, value in fields.items())


def record_fields_of(record: Notification) -> dict[str, Any]:
    from pastforward.client import Notification as Wrapped

    found: dict[str, Any] = record_fields(Wrapped(record, 0, 0))["content"]["attributes"]
    return found


# ------------------------------------------------------------ try, explain


async def try_(asked: Asked) -> Response:
    if asked.request.method == "POST":
        return await _subscribe(asked)
    query = asked.request.query_params
    words = {name: query.get(name, usual) for name, usual in (("where", ""), ("topic", ""), ("scope", "overlap"))}
    words["since"] = query.get("since", "-10m")
    trial, error = None, None
    if "where" in query:
        try:
            trial = trial_fields(
                await inquiries.tried(asked, {**words, "where": words["where"] or None, "examples": 10})
            )
        except (PastforwardError, Problem) as failure:
            error = _marked(words["where"], failure)
    return page(
        asked,
        "try.html",
        "Try",
        asked=words,
        trial=trial,
        error=error,
        command=command("try", words["where"] or "severity >= 3", topic=words["topic"], since=words["since"]),
        python=call_of("client.try_condition", words["where"], topic=words["topic"], since=words["since"]),
    )


def _marked(where: str, failure: Exception) -> dict[str, str]:
    """The condition with the character at which it goes wrong."""
    problem = problem_of(failure)
    at = problem.more.get("position")
    if at is None and isinstance(failure, SchemaError):  # which has the words alone
        try:
            Condition.parse(where)
        except ConditionError as error:
            problem, at = problem_of(error), error.position
    if at is None:
        return {"before": where, "at": "", "after": "", "said": problem.detail}
    return {"before": where[:at], "at": where[at : at + 1] or "⏎", "after": where[at + 1 :], "said": problem.detail}


async def _subscribe(asked: Asked) -> Response:
    form = await asked.request.form(max_fields=10)
    fields: dict[str, Any] = {
        name: form[name] for name in ("where", "topic", "scope", "subscriber_id") if form.get(name)
    }
    for name in ("starts_at", "ends_at"):
        if form.get(name):
            fields[name] = moment_of(form[name], name)
    record = subscriptions.record_of(asked, asked.identity.new_id(made_id(None, None)), fields)
    await subscriptions.send(asked, record)
    root = asked.request.scope.get("root_path", "")
    return RedirectResponse(f"{root}/subscriptions/{quote(record.subscription_id)}", 303)


async def explain(asked: Asked) -> Response:
    words = {name: asked.text(name) or "" for name in ("subscription_id", "publication_id")}
    verdict = None
    if all(words.values()):
        verdict = asdict(await inquiries.explained(asked, words["subscription_id"], words["publication_id"]))
    names = [each or "ID" for each in words.values()]
    python = (
        "from pastforward.settings import load\nfrom pastforward.broker import bootstrap_of\n"
        "from pastforward.streams.explain import Explainer\n\nsettings = load()\n"
        f"print(Explainer(settings, bootstrap_of(settings)).explain({names[0]!r}, {names[1]!r}))"
    )
    return page(
        asked,
        "explain.html",
        "Explain",
        asked=words,
        verdict=verdict,
        command=command("explain", *names),
        python=python,
    )


# ------------------------------------------------------------ dead letters, auctions, topics


async def dead_letters(asked: Asked) -> Response:
    found, total = await letters.find(asked)
    settings = asked.gateway.settings
    words = {name: asked.text(name) or "" for name in ("since", "kind")}
    return page(
        asked,
        "letters.html",
        "Dead letters",
        found=[letter_fields(each, settings) for each in found],
        total=total,
        asked=words,
        command=command("dead-letters", "list", since=words["since"], kind=words["kind"]),
        python=call_of("list(client.dead_letters", words["since"] or "-1h") + ")",
    )


async def dead_letter(asked: Asked) -> Response:
    found = await letters.named(asked)
    said = None
    if asked.request.method == "POST":
        form = await asked.request.form(max_fields=5)
        try:
            await letters.check(asked, found)
            said = "it would be sent"
            if not form.get("dry_run"):
                await asked.gateway.call(asked.gateway.client.resend, found)
                said = "sent"
        except Problem as problem:
            said = problem.detail
    again = await asked.gateway.call(asked.gateway.client.fault, found)
    letter = letters.shown(found, again, asked.gateway.settings)
    return page(
        asked,
        "letter.html",
        f"Dead letter {found.place}",
        letter=letter,
        said=said,
        hexadecimal=dumped(found.letter.value or b""),
        command=command("dead-letters", "resend", found.place, "--dry-run"),
        python=(
            f"{PROGRAM}for letter in client.dead_letters():\n"
            f"        if letter.place == {found.place!r}:\n            client.resend(letter)"
        ),
    )


def dumped(value: bytes, most: int = 1024) -> str:
    lines = []
    for at in range(0, min(len(value), most), 16):
        part = value[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<47}  {text}")
    return "\n".join([*lines, *([f"… {len(value) - most:,} more"] if len(value) > most else [])])


async def auctions(asked: Asked) -> Response:
    found = [
        {**asdict(each), "at": f"{Instant.of(each.changed_at):%Y-%m-%d %H:%M:%S}"}
        for each in await inquiries.offers(asked)
    ]
    bids = await asked.gateway.call_dear(_read_lately, asked, asked.identity.name)
    shown = [
        {
            "at": f"{Instant.of(each.matched_at):%H:%M:%S}",
            "publication_id": each.publication_id,
            "recipient_id": each.recipient_id,
            "role": each.role,
            "value": each.value,
        }
        for each in reversed([each for each in bids if each.phase == "best"][-SHOWN:])
    ]
    python = f"{PROGRAM}for offer in client.best_offers(timeout=1):\n        print(offer)"
    found.sort(key=lambda each: -each["changed_at"])
    return page(
        asked,
        "auctions.html",
        "Auctions",
        found=found[:200],
        bids=shown,
        command=command("watch", "--best"),
        python=python,
    )


async def topics(asked: Asked) -> Response:
    minutes = asked.number("minutes", 10, 1, 1440)
    tree = await asked.gateway.call_dear(tree_of, asked.gateway, asked.identity, minutes)
    python = f"{PROGRAM}print(client.try_condition(None, topic='1', since='-10m').seen)"
    return page(
        asked, "topics.html", "Topics", **tree, command=command("try", "", topic="1", since="-10m"), python=python
    )


async def api(asked: Asked) -> Response:
    operations = [
        {"method": method.upper(), "path": path, "summary": each["summary"]}
        for path, methods in document()["paths"].items()
        for method, each in methods.items()
    ]
    return page(asked, "api.html", "API", operations=operations, command=f"curl -s {asked.request.base_url}v1/status")
