"""`/v1/dead-letters`: what the workers could not take; list, show, send again."""

from __future__ import annotations

import base64
from typing import Any, Final

from starlette.responses import Response

from pastforward.client import Refusal
from pastforward.client.fields import letter_fields
from pastforward.errors import UserError
from pastforward.gateway.api.times import instant_of
from pastforward.gateway.context import Asked, answer
from pastforward.gateway.problems import Problem, not_found
from pastforward.settings import Settings

PAGE: Final = 100
MOST: Final = 1000


async def list_(asked: Asked) -> Response:
    """The latest first."""
    found, total = await find(asked)
    settings = asked.gateway.settings
    return answer({"dead_letters": [letter_fields(each, settings) for each in found], "total": total})


async def find(asked: Asked) -> tuple[list[Refusal], int]:
    limit, kind = asked.number("limit", PAGE, 1, MOST), asked.text("kind")
    since = instant_of(asked.text("since"), "since")

    def read() -> list[Refusal]:
        return [
            each
            for each in asked.gateway.client.dead_letters(since)
            if (kind is None or each.kind == kind) and asked.identity.owns_id(each.name)
        ]

    found = await asked.gateway.call_dear(read)
    found.sort(key=lambda each: (each.letter.arrived_at, each.partition, each.offset), reverse=True)
    return found[:limit], len(found)


async def named(asked: Asked) -> Refusal:
    place = str(asked.request.path_params["place"])

    def read() -> Refusal | None:
        return next((each for each in asked.gateway.client.dead_letters() if each.place == place), None)

    found = await asked.gateway.call_dear(read)
    if found is None or not asked.identity.owns_id(found.name):
        raise not_found(f"there is no dead letter {place!r} among those that are kept, a week")
    return found


async def show(asked: Asked) -> Response:
    found = await named(asked)
    again = await asked.gateway.call(asked.gateway.client.fault, found)
    return answer(shown(found, again, asked.gateway.settings))


def shown(found: Refusal, again: str | None, settings: Settings) -> dict[str, Any]:
    """`value` as text where it is one; `bytes` always."""
    value = found.letter.value
    return {
        **letter_fields(found, settings),
        "value": None if value is None else value.decode("utf-8", "backslashreplace"),
        "bytes": None if value is None else base64.b64encode(value).decode(),
        "again": "taken" if again is None else f"refused: {again}",
    }


async def resend(asked: Asked) -> Response:
    """As it was. What would be refused again is not sent."""
    found = await named(asked)
    await check(asked, found)
    if asked.flag("dry_run"):
        return answer({"letter": found.place, "outcome": "would be sent"})
    await asked.gateway.call(asked.gateway.client.resend, found)
    return answer({"letter": found.place, "outcome": "sent"})


async def check(asked: Asked, found: Refusal) -> None:
    client = asked.gateway.client
    again = await asked.gateway.call(client.fault, found)
    if again is not None:
        raise Problem(409, "conflict", f"it would be refused again: {again}")
    try:
        await asked.gateway.call(client.check_sendable, found)
    except UserError as error:
        raise Problem(409, "conflict", f"it cannot be sent: {error}") from error
    await asked.gateway.call(_check_may_send, asked, found)


def _check_may_send(asked: Asked, found: Refusal) -> None:
    """It lies on the topic in its sender's name; whoever sends it again needs the same rights."""
    if asked.identity.is_open:
        return
    from pastforward.schemas import Subscription, decode_publication, decode_subscription
    from pastforward.topics import Topics

    letter, registry = found.letter, asked.gateway.client.registry
    if letter.topic == Topics(asked.gateway.settings.topic_prefix).subscriptions:
        read = decode_subscription(letter.key, letter.value, registry)
        if isinstance(read, Subscription):
            asked.identity.own(read.subscriber_id, "subscriber_id")
            asked.identity.check_read(read.topic)
        return
    publication = decode_publication(letter.key, letter.value, registry)
    asked.identity.check_write(publication.topic)
    if publication.publisher_id is not None:
        asked.identity.own(publication.publisher_id, "publisher_id")
