"""`/v1/publications`: one as JSON, many as newline-delimited JSON; show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson
from starlette.responses import Response

from pastforward.client import Client
from pastforward.client.dictionaries import PlainWriter
from pastforward.errors import PastforwardError
from pastforward.gateway.api.times import with_moments
from pastforward.gateway.context import Asked, answer, object_of
from pastforward.gateway.idempotency import key_of, made_id
from pastforward.gateway.identity import Identity
from pastforward.gateway.problems import Problem, not_found, problem_of
from pastforward.schemas import Publication, SchemaError, decode_publication, encode
from pastforward.schemas.acceptance import accept_publication

LINES: Final = "application/x-ndjson"
ALSO: Final = ("application/jsonl", "application/ndjson")
CHUNK: Final = 1000  # lines that are sent together
SHOWN: Final = 100  # lines that were refused, in the answer

Record = Publication | dict[str, Any]


async def publish(asked: Asked) -> Response:
    kind = asked.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in (LINES, *ALSO):
        return await _publish_lines(asked)
    body = await asked.body()
    key = key_of(asked.request)

    async def once() -> Response:
        record = record_of(asked.identity, object_of(body), key, 0)
        await asked.gateway.call(asked.gateway.client.publish_many, [record])
        return answer({"publication_id": id_of(record)}, 201)

    return await asked.gateway.answers.once(asked.identity.name, key, asked.request, body, once)


def record_of(identity: Identity, fields: dict[str, Any], key: str | None, number: int) -> Publication:
    """Read as the router reads it from the topic."""
    name = fields.get("publication_id")
    if name is None:
        name = fields["publication_id"] = identity.new_id(made_id(identity.name, key, number))
    elif isinstance(name, str):
        identity.check_id(name, "publication_id")
    if fields.get("publisher_id") is not None:
        fields["publisher_id"] = identity.own(fields["publisher_id"], "publisher_id")
    record = decode_publication(None, orjson.dumps(with_moments(fields, "published_at", "expires_at")))
    accept_publication(record)
    identity.check_write(record.topic)
    return record


def id_of(record: Record) -> str:
    return str(record["publication_id"] if isinstance(record, dict) else record.publication_id)


class Lines:
    """Newline-delimited JSON on its way to Kafka. A line that is wrong is named in the answer, and the others are sent."""

    def __init__(self, client: Client, identity: Identity, key: str | None, largest: int) -> None:
        self._client, self._identity, self._key, self._largest = client, identity, key, largest
        self._plain = PlainWriter()
        self._rest = b""
        self._lines: list[bytes] = []
        self.number = 0
        self.sent = 0
        self.refused = 0
        self.problems: list[dict[str, Any]] = []

    def feed(self, part: bytes) -> bool:
        """Whether there are enough of them to be sent."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        self._lines += lines
        if len(self._rest) > self._largest:
            raise Problem(
                413, "too-large", f"line {len(self._lines) + self.number + 1} has more than {self._largest:,} bytes"
            )
        return len(self._lines) >= CHUNK

    def send(self, last: bool = False) -> None:
        lines, self._lines = self._lines, []
        if last and self._rest:
            lines.append(self._rest)
            self._rest = b""
        records = list(self._read(lines))
        if records:
            self._client.publish_many(records)
            self.sent += len(records)

    def _read(self, lines: Iterable[bytes]) -> Iterable[Record]:
        for line in lines:
            self.number += 1
            if not line.strip():
                continue
            try:
                yield self._record(line)
            except (PastforwardError, Problem) as error:
                self.refused += 1
                if len(self.problems) < SHOWN:
                    self.problems.append({"line": self.number, **problem_of(error).fields()})

    def _record(self, line: bytes) -> Record:
        if len(line) > self._largest:
            raise SchemaError("too_large", f"the line has {len(line):,} bytes: at most {self._largest:,} are taken")
        fields = object_of(line)
        if self._identity.is_open and self._key is None:
            if fields.get("publication_id") is None:
                fields["publication_id"] = made_id(None, None)
            if self._plain.write(fields) is not None:
                return fields
        record = record_of(self._identity, fields, self._key, self.number)
        encode(record)
        return record


async def _publish_lines(asked: Asked) -> Response:
    gateway = asked.gateway
    limits = gateway.options.effective_limits
    lines = Lines(gateway.client, asked.identity, key_of(asked.request), limits.body)
    size = 0
    try:
        async for part in asked.request.stream():
            size += len(part)
            if size > limits.bulk:
                raise Problem(
                    413, "too-large", f"the body has more than {limits.bulk:,} bytes: send it in several requests"
                )
            if lines.feed(part):
                await gateway.call(lines.send)
        await gateway.call(lines.send, True)
    except (Problem, PastforwardError) as error:
        problem = problem_of(error)
        problem.more["published"] = lines.sent  # so much has an effect all the same
        raise problem from error
    fields = {"published": lines.sent, "refused": lines.refused, "problems": lines.problems}
    return answer(fields, 422 if lines.refused and not lines.sent else 200)


async def show(asked: Asked) -> Response:
    found = await asked.gateway.call_dear(asked.gateway.client.publication, asked.path_id, asked.text("topic"))
    if found is None or not asked.identity.sees_publication(found.topic, found.publication_id):
        raise not_found(f"there is no publication {asked.path_id!r} on the topic, which keeps a week")
    return Response(encode(found, "json"), 200, None, "application/json")
