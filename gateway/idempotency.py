"""`Idempotency-Key`: a request that is sent again has the effect of one.

The answer of a request is kept and given again. The key also becomes the id of what is sent without one, and Kafka's side drops what it has
had: so a repeat has no effect either when another gateway takes it, or this one has been started anew in between.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from pastforward.gateway.problems import Problem

KEPT: Final = 10_000  # answers
LONGEST: Final = 255  # characters
LARGEST: Final = 100_000  # bytes of an answer that is kept
_SPACE: Final = uuid.UUID("7b7e60a4-52b0-5d0c-9a4c-0c8f5a2f9d11")  # of ids made of keys; must never change


def key_of(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= LONGEST:
        raise Problem(400, "bad-request", f"Idempotency-Key has {len(key)} characters: write 1 to {LONGEST}")
    return key


def made_id(owner: str | None, key: str | None, number: int = 0) -> str:
    """Of one key always the same."""
    if key is None:
        return uuid.uuid4().hex
    return uuid.uuid5(_SPACE, f"{owner or ''}\0{key}\0{number}").hex


class Answers:
    """Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[bytes, Response]] = OrderedDict()
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def once(
        self, owner: str | None, key: str | None, request: Request, body: bytes, call: Callable[[], Awaitable[Response]]
    ) -> Response:
        if key is None:
            return await call()
        place = (owner or "", key)
        said = hashlib.sha256(f"{request.method} {request.url.path}\0".encode() + body).digest()
        lock = self._locks.setdefault(place, asyncio.Lock())
        try:
            async with lock:
                known = self._kept.get(place)
                if known is None:
                    response = await call()
                    if response.status_code < 500 and response.status_code != 429 and len(response.body) <= LARGEST:
                        self._kept[place] = (said, response)
                        while len(self._kept) > KEPT:
                            self._kept.popitem(last=False)
                    return response
        finally:
            if not lock.locked():
                self._locks.pop(place, None)
        if known[0] != said:
            raise Problem(422, "conflict", f"Idempotency-Key {key!r} was used for another request: take a new one")
        return known[1]
