"""The contract: Avro schemas of every record on a topic, and codecs that work on whole chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pastforward.columns import extras
from pastforward.columns.texts import Texts
from pastforward.columns.times import NEVER
from pastforward.schemas.codec import (
    Format,
    Registry,
    canonical_publication,
    canonical_subscription,
    dead_letter,
    dead_letter_key,
    decode_backfill_request,
    decode_best_offer,
    decode_dead_letter,
    decode_key,
    decode_notification,
    decode_publication,
    decode_rendezvous,
    decode_subscription,
    encode,
)
from pastforward.schemas.columns import (
    Contents,
    NotificationColumns,
    PublicationColumns,
    RendezvousColumns,
    SubscriptionColumns,
)
from pastforward.schemas.errors import SchemaError, is_fault, refusal
from pastforward.schemas.records import (
    BackfillRequest,
    Best,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Content,
    DeadLetter,
    Entity,
    EntityWithdrawal,
    Notification,
    Predicate,
    Publication,
    Rendezvous,
    Subscription,
    Version,
    Withdrawal,
)

if TYPE_CHECKING:
    from pastforward.schemas.chunk_writer import (
        encode_rendezvous_publications,
        encode_rendezvous_subscriptions,
    )
    from pastforward.schemas.chunks import (
        decode_publications,
        decode_rendezvous_chunk,
        decode_subscriptions,
    )
    from pastforward.schemas.entries import attributes_of
    from pastforward.schemas.notification_chunks import decode_notifications
    from pastforward.schemas.notification_writer import encode_notifications
    from pastforward.schemas.warm import compile_kernels

__all__ = [
    "NEVER",
    "BackfillRequest",
    "Best",
    "BestOffer",
    "CanonicalPublication",
    "CanonicalSubscription",
    "Content",
    "Contents",
    "DeadLetter",
    "Entity",
    "EntityWithdrawal",
    "Format",
    "Notification",
    "NotificationColumns",
    "Predicate",
    "Publication",
    "PublicationColumns",
    "Registry",
    "Rendezvous",
    "RendezvousColumns",
    "SchemaError",
    "Subscription",
    "SubscriptionColumns",
    "Texts",
    "Version",
    "Withdrawal",
    "attributes_of",
    "canonical_publication",
    "canonical_subscription",
    "compile_kernels",
    "dead_letter",
    "dead_letter_key",
    "decode_backfill_request",
    "decode_best_offer",
    "decode_dead_letter",
    "decode_key",
    "decode_notification",
    "decode_notifications",
    "decode_publication",
    "decode_publications",
    "decode_rendezvous",
    "decode_rendezvous_chunk",
    "decode_subscription",
    "decode_subscriptions",
    "encode",
    "encode_notifications",
    "encode_rendezvous_publications",
    "encode_rendezvous_subscriptions",
    "is_fault",
    "refusal",
]

# Kernels take a second to import: who encodes single records does not wait for them.
_LAZY = {
    "attributes_of": "pastforward.schemas.entries",
    "compile_kernels": "pastforward.schemas.warm",
    "decode_notifications": "pastforward.schemas.notification_chunks",
    "decode_publications": "pastforward.schemas.chunks",
    "decode_rendezvous_chunk": "pastforward.schemas.chunks",
    "decode_subscriptions": "pastforward.schemas.chunks",
    "encode_notifications": "pastforward.schemas.notification_writer",
    "encode_rendezvous_publications": "pastforward.schemas.chunk_writer",
    "encode_rendezvous_subscriptions": "pastforward.schemas.chunk_writer",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        extras.need("worker", f"pastforward.schemas.{name}")
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
