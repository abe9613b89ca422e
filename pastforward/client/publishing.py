"""What the client says: publications."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, cast

from pastforward import names
from pastforward.client.arguments import check_where, checked_attributes, checked_body
from pastforward.client.core import Core
from pastforward.client.dictionaries import publication_of
from pastforward.client.moments import Moment, micros
from pastforward.client.placing import Area, attributes_at, topic_at
from pastforward.client.tables import Table, is_table, records_of
from pastforward.errors import UserError
from pastforward.matching.conditions.values import Point, Value
from pastforward.schemas import Best, Publication, encode
from pastforward.schemas.acceptance import accept_publication
from pastforward.schemas.records import Where


class Publishing(Core):
    def publish(
        self,
        attributes: Mapping[str, Value] | None = None,
        *,
        topic: str = "",
        at: Point | Area | None = None,
        publication_id: str | None = None,
        publisher_id: str | None = None,
        published_at: Moment = None,
        expires_at: Moment = None,
        where: Where = None,
        best: Best | None = None,
        self_join: bool = False,
        body: bytes | None = None,
    ) -> str:
        """Returns the publication's id. `topic`: a path such as `1.4.2`, or a name such as `roads/I-95`.

        `at=Point(lon, lat)`: where it happened. Its topic is the cell of that place, below `topic`, and the place becomes the attribute
        `place`: whoever subscribed `near` it is notified.
        """
        now = self._now()
        check_where(where)
        attributes = checked_attributes(attributes)
        if at is not None or names.is_name(topic):
            topic = self._book.resolved(topic)
        if at is not None:
            topic, attributes = topic_at(at, topic), attributes_at(attributes, at)
        record = Publication(
            uuid.uuid4().hex if publication_id is None else publication_id,
            publisher_id,
            topic,
            micros(published_at, now, "published_at"),
            micros(expires_at, now, "expires_at"),
            attributes,
            where,
            best,
            self_join,
            checked_body(body),
        )
        self.publish_many([record])
        return str(record.publication_id)

    def publish_many(self, publications: Iterable[Publication | Mapping[str, Any]] | Table) -> int:
        """Pipelined; returns how many were delivered, all of them, or raises. A dictionary has the fields of `Publication`, or `at`.

        An Arrow table or a data frame has a column for each attribute, null is absent, and `_topic`, `_publication_id`, `_publisher_id`,
        `_published_at`, `_expires_at` for the rest.
        """
        records: Iterable[tuple[str, bytes]]
        if not is_table(publications):
            records = map(self._published, cast(Iterable[Publication | Mapping[str, Any]], publications))
        elif self._registry is None:
            records = records_of(publications, self._names, self._book.resolved)
        else:
            raise UserError("a table is sent as JSON, and this system has a schema registry: give dictionaries instead")
        sent = self._send(self._topics.publications, records)
        self._book.flush()
        return sent

    def _published(self, given: Publication | Mapping[str, Any]) -> tuple[str, bytes]:
        """Key and value."""
        if not isinstance(given, Publication):
            given = self._placed_one(given)
            if self._registry is None:
                value = self._plain.write(given)
                if value is not None:
                    return given.get("publication_id") or next(self._names), value
            given = publication_of(given, self._now())
        if given.publication_id is None:
            given.publication_id = next(self._names)
        value = encode(given, registry=self._registry)
        self._rules.accept(partial(accept_publication, given), given.best is not None)
        return given.publication_id, value

    def _placed_one(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """With a path for a name, and a cell for a place."""
        at, topic = given.get("at"), given.get("topic", "")
        if names.is_name(topic):
            given = {**given, "topic": self._book.topic(topic)}
        if at is None:
            return given
        rest = {name: value for name, value in given.items() if name != "at"}
        attributes = attributes_at(checked_attributes(given.get("attributes")), at)
        return {**rest, "topic": topic_at(at, given.get("topic", "")), "attributes": attributes}

    def publication(self, publication_id: str, topic: str | None = None) -> Publication | None:
        """The first that came under that id, at that topic or at any. None: there is none on the topic, which keeps a week."""
        self._check_open("a publication was asked for")
        return self._listing.publication(publication_id, topic)
