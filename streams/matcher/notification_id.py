"""An event is known by its id and its topic, an entity by its id; a notification by subscription, version and publication, so that a repeat
can be told."""

from __future__ import annotations

import hashlib

from pastforward.schemas import Version


def event_name(publication_id: str, topic: str) -> str:
    """One text for an event: ids hold no zero byte."""
    return f"{publication_id}\0{topic}"


def notification_id(
    subscription_id: str,
    version: Version,
    publication_id: str,
    topic: str,
    role: str = "subscriber",
    change: int | None = None,
    entity: tuple[Version, str] | None = None,
) -> str:
    """The first 16 bytes of SHA-256 in hex. Ids hold no zero byte, so zero bytes separate them.

    `change`: the rendezvous offset at which the best offer changed, if that is what is notified. `entity`: its version, and the
    transition; an empty text for none.
    """
    parts = [subscription_id, str(version), event_name(publication_id, topic)]
    if role == "publisher":
        parts.append("publisher")
    if change is not None:
        parts += ["best", str(change)]
    if entity is not None:
        parts += [str(entity[0]), entity[1]]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
