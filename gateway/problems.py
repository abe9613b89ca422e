"""Errors as RFC 9457 has them: `application/problem+json`, with the words that the router and the command line use."""

from __future__ import annotations

import logging
from typing import Any, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

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
from pastforward.schemas import SchemaError

log = logging.getLogger("pastforward.gateway")

TYPE: Final = "application/problem+json"
# `about`: what the type is called; docs/http.md lists them.
TITLES: Final = {
    "bad-request": "The request cannot be read",
    "refused": "The record was refused",
    "bad-condition": "The condition cannot be taken",
    "unauthenticated": "Nobody knows who you are",
    "forbidden": "This is not yours",
    "cross-origin": "The request came from another page",
    "not-found": "There is nothing of that name",
    "method-not-allowed": "This cannot be done here",
    "conflict": "It is not as the request takes it to be",
    "token-expired": "What the token stands before is gone",
    "too-large": "The body is too large",
    "too-many": "Too much at once",
    "kafka": "Kafka does not answer",
    "not-taken": "No worker has come to it yet",
    "internal": "A fault of the gateway",
}


class Problem(Exception):
    """An answer that is an error. Whatever is in `more` stands beside the usual members."""

    def __init__(
        self, status: int, about: str, detail: str, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.about, self.detail, self.headers, self.more = status, about, detail, headers or {}, more

    def fields(self) -> dict[str, Any]:
        return {
            "type": f"urn:pastforward:problem:{self.about}",
            "title": TITLES[self.about],
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def response(self) -> Response:
        return Response(orjson.dumps(self.fields()), self.status, self.headers, TYPE)


def not_found(what: str) -> Problem:
    return Problem(404, "not-found", what)


def problem_of(error: Exception) -> Problem:
    """What a caller is told of an exception; what nobody foresaw is logged, and said to be ours."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ConditionError):
        return _condition(error)
    if isinstance(error, SchemaError):
        cause = error.__cause__
        if isinstance(cause, ConditionError):
            return _condition(cause)
        return Problem(
            422, "bad-condition" if error.kind == "bad_condition" else "refused", error.reason, kind=error.kind
        )
    if isinstance(error, Refused):
        return Problem(422, "refused", error.reason, kind=error.kind)
    if isinstance(error, TokenExpired):
        return Problem(410, "token-expired", str(error))
    if isinstance(error, NotTaken):
        return Problem(504, "not-taken", str(error))
    if isinstance(error, UserError):
        return Problem(400, "bad-request", str(error))
    if isinstance(error, DeliveryError | BrokerError | ClientClosed):
        return Problem(503, "kafka", str(error), {"Retry-After": "5"})
    if isinstance(error, PastforwardError):
        return Problem(400, "bad-request", str(error))
    if isinstance(error, HTTPException):
        return _of_starlette(error)
    log.error("a request ended with a fault of ours", exc_info=error)
    return Problem(500, "internal", f"{type(error).__name__}; the log of the gateway has the rest")


def _condition(error: ConditionError) -> Problem:
    return Problem(
        422,
        "bad-condition",
        str(error),
        kind="bad_condition",
        problem=error.problem,
        hint=error.hint,
        position=error.position,
    )


def _of_starlette(error: HTTPException) -> Problem:
    about = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "bad-request")
    detail = "there is no such address; /openapi.json lists all" if error.status_code == 404 else str(error.detail)
    return Problem(error.status_code, about, detail, dict(error.headers or {}))


async def answer(request: Request, error: Exception) -> Response:
    return problem_of(error).response()
