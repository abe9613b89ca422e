"""HTTP for whoever has no Kafka client, and the console in the browser. An ASGI application, outside the workers: see docs/http.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pastforward.gateway.app import create_app
    from pastforward.gateway.options import GatewayOptions

__all__ = ["GatewayOptions", "create_app"]

_HOMES = {"create_app": "pastforward.gateway.app", "GatewayOptions": "pastforward.gateway.options"}


def __getattr__(name: str) -> Any:
    """Starlette is an extra: who asks for a name needs it, who imports the package does not."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
