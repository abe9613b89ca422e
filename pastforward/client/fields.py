"""What the client gives back, as plain fields that JSON can hold: the command line prints them, the gateway answers with them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pastforward.client.listing import Standing
from pastforward.client.notification import Notification
from pastforward.client.refusals import Refusal
from pastforward.client.trial import Trial
from pastforward.matching.conditions.printing import value_text
from pastforward.schemas import BestOffer, Publication
from pastforward.schemas.acceptance import normal_form
from pastforward.schemas.codec import finite_json, time_basis, to_json
from pastforward.schemas.plain import plain_content
from pastforward.settings import Settings


def condition_of(standing: Standing) -> str:
    """As SQL, also if it came in the structured form."""
    where = standing.record.where
    if where is None or isinstance(where, str):
        return where or ""
    from pastforward.matching import Condition

    return str(Condition(normal_form(where)))


def subscription_fields(standing: Standing) -> dict[str, Any]:
    """Times as RFC 3339; what is left at its default is left out."""
    record = standing.record
    fields: dict[str, Any] = {
        "subscription_id": record.subscription_id,
        "subscriber_id": record.subscriber_id,
        "state": standing.state,
        "version": standing.version,
        "arrived_at": standing.arrived_at.isoformat(),
        "topic": record.topic,
        "scope": record.scope,
        "starts_at": standing.starts_at.isoformat(),
        "ends_at": None if standing.ends_at is None else standing.ends_at.isoformat(),
        "time": time_basis(record),
        "where": condition_of(standing) or None,
        "semantics": record.semantics,
        "self_join": record.self_join or None,
        "deliver": None if record.deliver == "content" else record.deliver,
        "transitions": record.transitions or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def letter_fields(refusal: Refusal, settings: Settings) -> dict[str, Any]:
    """`place` is that of the record, `letter` that of the dead letter."""
    letter = refusal.letter
    return {
        "letter": refusal.place,
        "arrived_at": refusal.arrived_at.isoformat(),
        "of": letter.topic.removeprefix(settings.topic_prefix),
        "place": f"{letter.partition}-{letter.offset}",
        "id": refusal.name,
        "kind": refusal.kind,
        "reason": refusal.reason,
    }


def content_text(publication: Publication) -> str:
    return " ".join(f"{name}={value_text(value)}" for name, value in sorted(publication.attributes.items()))


def trial_fields(found: Trial) -> dict[str, Any]:
    return {
        "since": found.since.isoformat(),
        "until": found.until.isoformat(),
        "seen": found.seen,
        "matched": found.matched,
        "a_day": found.a_day,
        "examples": [
            {"publication_id": each.publication_id, "topic": each.topic, "attributes": content_text(each)}
            for each in found.examples
        ],
        "misses": [
            {
                "predicate": miss.predicate,
                "count": miss.count,
                "value": miss.value,
                "distance": miss.distance,
                "nearest": None if miss.nearest is None else miss.nearest.publication_id,
            }
            for miss in found.misses
        ],
        "cost": found.cost._asdict(),
    }


def record_fields(record: Notification | BestOffer) -> dict[str, Any]:
    fields = asdict(record.record if isinstance(record, Notification) else record)
    if isinstance(record, Notification) and record.content is not None:
        carried = json.loads(to_json(finite_json(plain_content(record.content))))  # as on the topic
        fields["content"] = {name: value for name, value in carried.items() if value is not None}
    return {name: value for name, value in fields.items() if value is not None and value != ()}
