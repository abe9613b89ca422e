"""The OpenAPI 3.1 document, made of the table of operations and the schemas beside this file."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pastforward.gateway.operations import OPERATIONS, Operation

SCHEMAS: Final = Path(__file__).with_name("openapi_schemas.json")
SAID: Final = {
    200: "Done",
    201: "Sent; Kafka has it",
    204: "Withdrawn",
    400: "The request cannot be read",
    401: "Nobody knows who you are",
    403: "Not yours, or the request came from another page",
    404: "There is nothing of that name",
    409: "It is not as the request takes it to be",
    410: "What the token stands before is gone",
    413: "The body is too large",
    422: "The record was refused, with the words of the router",
    429: "Too much at once; Retry-After says when to come again",
    500: "A fault of the gateway",
    503: "Kafka does not answer",
    504: "No worker has come to it in the time that `wait` gave",
}
EVERYWHERE: Final = (400, 401, 403, 429, 500, 503)
LINES: Final = {"type": "string", "description": "A publication a line"}


@cache
def document() -> dict[str, Any]:
    parts = json.loads(SCHEMAS.read_text("utf-8"))
    paths: dict[str, Any] = {}
    for each in OPERATIONS:
        paths.setdefault(_plain(each.path), {})[each.method.lower()] = _operation(each, parts["parameters"])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pastforward",
            "version": version("pastforward"),
            "description": "Standing subscriptions that see the past and the future.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": parts["schemas"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _plain(path: str) -> str:
    return re.sub(r":path\}", "}", path)


def _operation(each: Operation, known: dict[str, Any]) -> dict[str, Any]:
    parameters = [known[name] for name in each.parameters]
    parameters += [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)", each.path)
    ]
    if each.idempotent:
        parameters.append(known["idempotency_key"])
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": parameters,
        "responses": {
            str(status): _response(each, status) for status in sorted({each.status, *each.also, *EVERYWHERE})
        },
    }
    if each.body is not None:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{each.body}"}}}
        if each.name == "publish":
            content["application/x-ndjson"] = {"schema": LINES}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _response(each: Operation, status: int) -> dict[str, Any]:
    found: dict[str, Any] = {"description": SAID[status]}
    if status >= 400:
        found["content"] = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    elif each.answer is not None:
        found["content"] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{each.answer}"}}}
        if each.name == "notifications":
            found["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return found
