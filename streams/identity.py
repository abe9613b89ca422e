"""The id of a notification: a function of subscription, version and publication, so that a repeat can be told."""

from __future__ import annotations

import hashlib

from schemas import Version


def notification_id(subscription_id: str, version: Version, publication_id: str, role: str = "subscriber") -> str:
    """The first 16 bytes of SHA-256 in hex. Ids hold no zero byte, so zero bytes separate them."""
    parts = [subscription_id, str(version), publication_id]
    if role == "publisher":
        parts.append("publisher")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
