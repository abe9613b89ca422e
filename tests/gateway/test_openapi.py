"""The OpenAPI document says what the running server does."""

from __future__ import annotations

from typing import Any

import httpx2
import jsonschema
import pytest
from starlette.routing import Route

from pastforward.gateway import openapi, operations

DOCUMENT = openapi.document()


def answer_schema(name: str, status: int) -> Any:
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            if operation["operationId"] == name:
                (kind,) = [k for k in operation["responses"][str(status)]["content"] if "json" in k]
                return operation["responses"][str(status)]["content"][kind]["schema"]
    raise AssertionError(name)


def check(found: Any, name: str, status: int) -> None:
    schema = {**answer_schema(name, status), "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(found)


def test_it_names_every_route_and_no_other() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    there = {
        (method, openapi._plain(route.path))
        for route in operations.routes()
        if isinstance(route, Route)
        for method in (route.methods or {"GET"}) - {"HEAD"}
    }
    assert described == there
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.broker
def test_the_servers_answers_are_as_it_says(http: httpx2.Client) -> None:
    assert http.get("/openapi.json").json() == DOCUMENT
    body = {"subscriber_id": "oa", "subscription_id": "oa-1", "topic": "5", "where": "a = 1", "starts_at": "-1m"}
    sent = http.post("/v1/subscriptions", json=body)
    check(sent.json(), "subscribe", sent.status_code)
    published = http.post("/v1/publications", json={"publication_id": "oa-p", "topic": "5", "attributes": {"a": 1}})
    check(published.json(), "publish", 201)
    check(http.get("/v1/notifications?recipient=oa&since=-5m&wait=10").json(), "notifications", 200)
    lines = http.post(
        "/v1/publications", content='{"topic": "5"}\n[]', headers={"Content-Type": "application/x-ndjson"}
    )
    check(lines.json(), "publish", 200)
    for name, path in (
        ("subscriptions", "/v1/subscriptions?subscriber=oa"),
        ("subscription", "/v1/subscriptions/oa-1"),
        ("publication", "/v1/publications/oa-p"),
        ("explain", "/v1/explain?subscription_id=oa-1&publication_id=oa-p"),
        ("dead_letters", "/v1/dead-letters"),
        ("best_offers", "/v1/best-offers"),
        ("status", "/v1/status"),
    ):
        answer = http.get(path)
        assert answer.status_code == 200, answer.text
        check(answer.json(), name, 200)
    check(http.post("/v1/try", json={"where": "a = 1"}).json(), "try", 200)
    check(http.post("/v1/conditions", json={"where": "a = 1"}).json(), "condition", 200)
    check(http.patch("/v1/subscriptions/oa-1", json={"ends_at": "+1m"}).json(), "change_subscription", 200)
    for path in ("/v1/subscriptions/nobody", "/v1/subscriptions?limit=x", "/v1/publications/nobody"):
        answer = http.get(path)
        check(answer.json(), "subscription", 404)
    assert http.delete("/v1/subscriptions/oa-1").status_code == 204
