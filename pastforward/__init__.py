"""Standing subscriptions over Kafka that see the past and the future."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pastforward.client import Client, DeliveryError, Handle

__all__ = ["Client", "DeliveryError", "Handle"]


def __getattr__(name: str) -> Any:
    """The client is imported when it is asked for: settings and errors are used by everything, and must stay light."""
    if name in __all__:
        from pastforward import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
