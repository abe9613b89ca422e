"""What can be asked of the API: one table, of which the routes are made and the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from starlette.routing import BaseRoute, Route, WebSocketRoute

from pastforward.gateway.api import inquiries, letters, notifications, publications, sockets, subscriptions
from pastforward.gateway.context import Call, endpoint

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """`body`, `answer`: names of schemas. `also`: other statuses that it has, beside those of every operation."""

    method: str
    path: str
    name: str
    call: Call | None
    summary: str
    parameters: tuple[str, ...] = ()
    body: str | None = None
    answer: str | None = None
    status: int = 200
    also: tuple[int, ...] = ()
    idempotent: bool = False


ID: Final = "/v1/subscriptions/{name:path}"
OPERATIONS: Final = (
    Operation(
        "GET", "/v1/subscriptions", "subscriptions", subscriptions.list_, "List those that stand, by id",
        ("subscriber", "state", "subscription_topic", "q", "limit", "after_id"), None, "SubscriptionPage",
    ),
    Operation(
        "POST", "/v1/subscriptions", "subscribe", subscriptions.create, "Subscribe; the same id again replaces",
        ("wait",), "NewSubscription", "Sent", 201, (200, 403, 413, 422, 504), True,
    ),
    Operation("GET", ID, "subscription", subscriptions.show, "Show one", (), None, "Subscription", 200, (404,)),
    Operation(
        "PUT", ID, "put_subscription", subscriptions.put, "Subscribe under this id, or replace what stands there",
        ("wait",), "NewSubscription", "Sent", 200, (201, 403, 413, 422, 504),
    ),
    Operation(
        "PATCH", ID, "change_subscription", subscriptions.change,
        "Change some fields: pause, resume, extend, end. Its window begins where it began",
        ("wait",), "Changes", "Sent", 200, (403, 404, 413, 422, 504),
    ),
    Operation("DELETE", ID, "unsubscribe", subscriptions.withdraw, "Withdraw it", (), None, None, 204, (404,)),
    Operation(
        "POST", "/v1/publications", "publish", publications.publish,
        "Publish one as JSON, or many as newline-delimited JSON", (), "Publication", "Published", 201,
        (200, 403, 413, 422), True,
    ),
    Operation(
        "GET", "/v1/publications/{name:path}", "publication", publications.show, "Show one of the last week",
        ("publication_topic",), None, "Publication", 200, (404,),
    ),
    Operation(
        "GET", "/v1/notifications", "notifications", None,
        "With Accept: text/event-stream all that come, as events; else what is there, a page at a time",
        ("recipient", "after", "since", "chosen", "limit", "wait_first", "last_event_id"), None, "NotificationPage", 200,
        (403, 410),
    ),
    Operation(
        "GET", "/v1/explain", "explain", inquiries.explain, "Why a subscription and a publication did or did not match",
        ("subscription_id", "publication_id"), None, "Verdict", 200, (404,),
    ),
    Operation(
        "POST", "/v1/try", "try", inquiries.try_, "What a condition would have matched, how often, and what it costs",
        (), "Tried", "Trial", 200, (403, 422),
    ),
    Operation(
        "POST", "/v1/conditions", "condition", inquiries.condition, "What a condition means, or what is wrong with it",
        (), "Where", "Condition", 200, (422,),
    ),
    Operation(
        "GET", "/v1/dead-letters", "dead_letters", letters.list_, "What the workers could not take, the latest first",
        ("since", "kind", "limit"), None, "LetterPage",
    ),
    Operation("GET", "/v1/dead-letters/{place}", "dead_letter", letters.show, "One, with its record", (), None, "Letter", 200, (404,)),
    Operation(
        "POST", "/v1/dead-letters/{place}/resend", "resend", letters.resend, "Send its record again as it was",
        ("dry_run",), None, "Resent", 200, (403, 404, 409),
    ),
    Operation(
        "GET", "/v1/best-offers", "best_offers", inquiries.best_offers, "Who holds the best offer of each auction",
        ("publication_id_optional",), None, "OfferPage",
    ),
    Operation("GET", "/v1/status", "status", inquiries.status, "Workers, and how far they are behind", (), None, "Status"),
)  # fmt: skip


def routes() -> list[BaseRoute]:
    made: list[BaseRoute] = [WebSocketRoute("/v1/notifications/socket", sockets.socket, name="socket")]
    for each in OPERATIONS:
        if each.call is None:
            made.append(Route(each.path, notifications.Stream(), name=each.name))
        else:
            made.append(Route(each.path, endpoint(each.call), methods=[each.method], name=each.name))
    return made
