"""`/v1/subscriptions`: list, show, create, replace, change, withdraw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import orjson
from starlette.responses import Response

from pastforward.client import Handle, Instant, Standing
from pastforward.client.fields import condition_of, subscription_fields
from pastforward.columns import dewey
from pastforward.gateway.api.times import instant_of, with_moments
from pastforward.gateway.context import Asked, answer, object_of
from pastforward.gateway.idempotency import key_of, made_id
from pastforward.gateway.identity import is_below
from pastforward.gateway.problems import Problem, not_found
from pastforward.matching import Condition
from pastforward.schemas import Subscription, decode_subscription

PAGE: Final = 100
MOST: Final = 1000
STATES: Final = ("live", "ended", "paused")
LONGEST_WAIT: Final = 30


async def list_(asked: Asked) -> Response:
    shown, following = await asked.gateway.call(find, asked)
    fields = {"subscriptions": [subscription_fields(each) for each in shown], "next": following}
    return answer(fields)


def find(asked: Asked) -> tuple[list[Standing], str | None]:
    """A page, and what the next one is behind."""
    limit = asked.number("limit", PAGE, 1, MOST)
    state = asked.choice("state", None, *STATES)
    topic, words, after = asked.text("topic"), (asked.text("q") or "").casefold().split(), asked.text("after")
    subscriber = asked.identity.name or asked.text("subscriber")

    def accept(each: Standing) -> bool:
        if state is not None and each.state != state:
            return False
        if topic is not None and not any(is_below(own, topic) for own in topics_of(each.record)):
            return False
        return not words or _has(each, words)

    shown: list[Standing] = []
    for each in asked.gateway.standings.page(accept, subscriber=subscriber, after=after or ""):
        if len(shown) == limit:
            return shown, shown[-1].subscription_id
        shown.append(each)
    return shown, None


def _has(each: Standing, words: list[str]) -> bool:
    """All of these words, in id, subscriber, topic or condition."""
    said = " ".join((each.subscription_id, each.subscriber_id, *topics_of(each.record), condition_of(each))).casefold()
    return all(word in said for word in words)


def topics_of(record: Subscription) -> tuple[str, ...]:
    return dewey.topics_of(record.topic)


def seen(asked: Asked, name: str) -> Standing:
    """Others' subscriptions are not there for whoever asks."""
    found = asked.gateway.standings.get(name)
    if found is None or not asked.identity.sees(found):
        raise not_found(f"there is no subscription {name!r}: withdrawn, or never sent")
    return found


async def show(asked: Asked) -> Response:
    return answer(subscription_fields(seen(asked, asked.path_id)))


async def create(asked: Asked) -> Response:
    body = await asked.body()
    key = key_of(asked.request)

    async def once() -> Response:
        fields = object_of(body)
        name = fields.pop("subscription_id", None)
        if name is None:
            name = asked.identity.new_id(made_id(asked.identity.name, key))
        elif not isinstance(name, str):
            raise Problem(422, "refused", f"subscription_id is {name!r}: write a text", kind="wrong_type")
        return await send(asked, record_of(asked, name, fields))

    return await asked.gateway.answers.once(asked.identity.name, key, asked.request, body, once)


async def put(asked: Asked) -> Response:
    """The same again has no effect, with a key or without."""
    name = asked.path_id
    fields = object_of(await asked.body())
    given = fields.pop("subscription_id", name)
    if given != name:
        raise Problem(422, "refused", f"subscription_id is {given!r}, and the address says {name!r}", kind="bad_id")
    return await send(asked, record_of(asked, name, fields))


def record_of(asked: Asked, name: str, fields: dict[str, Any]) -> Subscription:
    """Read as the router reads it from the topic."""
    identity = asked.identity
    identity.check_id(name, "subscription_id")
    fields["subscriber_id"] = identity.own(fields.get("subscriber_id"), "subscriber_id")
    value = orjson.dumps(with_moments(fields, "starts_at", "ends_at"))
    record = decode_subscription(name.encode(), value)
    assert isinstance(record, Subscription)
    if isinstance(record.where, str):
        Condition.parse(record.where)  # whose error has the place at which it goes wrong
    for topic in topics_of(record):
        identity.check_read(topic)
    return record


async def send(asked: Asked, record: Subscription) -> Response:
    gateway, identity = asked.gateway, asked.identity
    before = gateway.standings.get(record.subscription_id)
    if before is not None and not identity.sees(before):
        raise Problem(403, "forbidden", f"subscription_id {record.subscription_id!r} is somebody else's")
    if before is None and identity.name is not None:
        gateway.throttle.check_subscriptions(gateway.standings.count(identity.name))
    (handle,) = await gateway.call(gateway.client.subscribe_many, [record])
    await settled(asked, handle)
    place = str(asked.request.url_for("subscription", name=record.subscription_id).path)
    fields = {"subscription_id": record.subscription_id, "version": handle.version, "token": handle.begin_token}
    return answer(fields, 201 if before is None else 200, {"Location": quote(place)})


async def settled(asked: Asked, handle: Handle) -> None:
    """What is asked for next has it. `wait`: seconds, until the workers have taken it or refused it."""
    wait = asked.number("wait", 0, 0, LONGEST_WAIT)
    if wait:
        await asked.gateway.call(handle.wait, float(wait))
    await asked.gateway.call(asked.gateway.standings.wait_version, handle.version)


async def change(asked: Asked) -> Response:
    """Some fields: `{"ends_at": "+1h"}`, `{"paused": true}`. The window begins where it began."""
    found = seen(asked, asked.path_id)
    changes = await asked.object()
    for name in ("starts_at", "ends_at"):
        if name in changes:
            changes[name] = instant_of(changes[name], name)
    topic = changes.get("topic")
    for each in [topic] if isinstance(topic, str) else topic if isinstance(topic, list) else []:
        asked.identity.check_read(str(each))
    handle = await apply(asked, found, changes)
    return answer(
        {"subscription_id": found.subscription_id, "version": handle.version, "token": handle.begin_token}, 200
    )


async def apply(asked: Asked, found: Standing, changes: dict[str, Any]) -> Handle:
    handle: Handle = await asked.gateway.call(asked.gateway.client.replace, found.subscription_id, **changes)
    await settled(asked, handle)
    return handle


async def withdraw(asked: Asked) -> Response:
    found = seen(asked, asked.path_id)
    await end(asked, found)
    return Response(None, 204)


async def end(asked: Asked, found: Standing) -> None:
    await asked.gateway.call(asked.gateway.client.unsubscribe, found.subscription_id)
    await asked.gateway.call(asked.gateway.standings.wait_current)


def ended_now(found: Standing, now: Instant) -> Subscription:
    return replace(found.record, starts_at=found.starts_at.micros, ends_at=now.micros)
