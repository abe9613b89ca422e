"""The schema registry of the settings, if one is named."""

from __future__ import annotations

from pastforward.columns import extras
from pastforward.errors import UserError
from pastforward.schemas import Registry
from pastforward.settings import Settings
from pastforward.topics import Topics


def open_registry(settings: Settings) -> Registry | None:
    """None: records are written in Avro's single-object encoding."""
    if not settings.schema_registry_url:
        return None
    extras.need("registry", "SCHEMA_REGISTRY_URL")
    from pastforward.schemas.registry import SchemaRegistry  # its HTTP client takes a while to import

    topics = Topics(settings.topic_prefix)
    subjects = {
        "subscription": topics.subscriptions,
        "publication": topics.publications,
        "notification": topics.notifications,
        "dead_letter": topics.dead_letters,
        "backfill_request": topics.backfill_requests,
        "best_offer": topics.best_offers,
    }
    try:
        return SchemaRegistry(settings.schema_registry_url, subjects)
    except ValueError as error:
        raise UserError(f"SCHEMA_REGISTRY_URL: {error}; write a URL such as http://registry:8081") from error
