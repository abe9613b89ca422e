"""The client for Python programs: subscribe, publish, and iterate notifications. Built on confluent-kafka.

A `Client` may be shared by threads; an iterator belongs to the thread that runs it. Every call that writes returns when the broker has
the record, or raises `DeliveryError`; `publish_many` does so for all its records together.
"""

from pastforward.client.asynchronous import AsyncClient, AsyncHandle, AsyncStream
from pastforward.client.client import Client
from pastforward.client.group import GroupStream
from pastforward.client.handle import Handle
from pastforward.client.listing import Standing
from pastforward.client.moments import Instant, Moment, micros
from pastforward.client.notification import Notification
from pastforward.client.refusals import Refusal
from pastforward.client.stream import Stream
from pastforward.errors import DeliveryError
from pastforward.schemas import Best, BestOffer, SchemaError

__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "AsyncStream",
    "Best",
    "BestOffer",
    "Client",
    "DeliveryError",
    "GroupStream",
    "Handle",
    "Instant",
    "Moment",
    "Notification",
    "Refusal",
    "SchemaError",
    "Standing",
    "Stream",
    "micros",
]
