"""Standing subscriptions over Kafka that see the past and the future."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pastforward.client import (
        AsyncClient,
        BestOffer,
        Client,
        GroupStream,
        Handle,
        Instant,
        Notification,
        Refusal,
        Standing,
        Stream,
    )
    from pastforward.client.models import ContentError
    from pastforward.errors import (
        BrokerError,
        ClientClosed,
        DeliveryError,
        NotTaken,
        PastforwardError,
        Refused,
        TokenExpired,
        UserError,
    )
    from pastforward.matching.conditions.errors import ConditionError
    from pastforward.matching.conditions.values import Box, Circle, Path, Point
    from pastforward.schemas import Best, Publication, SchemaError, Subscription

_HOMES: Final = {
    "pastforward.client": (
        "AsyncClient",
        "BestOffer",
        "Client",
        "GroupStream",
        "Handle",
        "Instant",
        "Notification",
        "Refusal",
        "Standing",
        "Stream",
    ),
    "pastforward.client.models": ("ContentError",),
    "pastforward.errors": (
        "BrokerError",
        "ClientClosed",
        "DeliveryError",
        "NotTaken",
        "PastforwardError",
        "Refused",
        "TokenExpired",
        "UserError",
    ),
    "pastforward.matching.conditions.errors": ("ConditionError",),
    "pastforward.matching.conditions.values": ("Box", "Circle", "Path", "Point"),
    "pastforward.schemas": ("Best", "Publication", "SchemaError", "Subscription"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AsyncClient",
    "Best",
    "BestOffer",
    "Box",
    "BrokerError",
    "Circle",
    "Client",
    "ClientClosed",
    "ConditionError",
    "ContentError",
    "DeliveryError",
    "GroupStream",
    "Handle",
    "Instant",
    "NotTaken",
    "Notification",
    "PastforwardError",
    "Path",
    "Point",
    "Publication",
    "Refusal",
    "Refused",
    "SchemaError",
    "Standing",
    "Stream",
    "Subscription",
    "TokenExpired",
    "UserError",
]


def __getattr__(name: str) -> Any:
    """Each is imported when it is asked for: settings and errors are used by everything, and must stay light."""
    if name in _HOME_OF:
        from importlib import import_module

        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
