"""What `subscribe` returns."""

from __future__ import annotations

from typing import Protocol

from pastforward.schemas import Subscription


class Subscriber(Protocol):
    """The client, as far as a handle needs it."""

    def unsubscribe(self, subscription_id: str) -> None: ...


class Handle:
    """A subscription that was sent. `with` withdraws it at the end."""

    def __init__(self, client: Subscriber, subscription: Subscription) -> None:
        self._client = client
        self.subscription = subscription

    @property
    def subscription_id(self) -> str:
        return self.subscription.subscription_id

    def unsubscribe(self) -> None:
        self._client.unsubscribe(self.subscription_id)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()
