"""Notifications by WebSocket: what is not acknowledged holds back what comes, and comes again to a named reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.gateway.conftest import Served, token
from tests.gateway.test_api import new
from tests.outside import PATIENCE

pytestmark = pytest.mark.broker


@contextmanager
def socket(served: Served, headers: dict[str, str] | None = None, **asked: Any) -> Iterator[ClientConnection]:
    url = f"{served.url.replace('http', 'ws')}/v1/notifications/socket?{urlencode(asked)}"
    with connect(url, additional_headers=headers) as found:
        yield found


def read(found: ClientConnection) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = json.loads(found.recv(PATIENCE))
        if "notification" in message or "problem" in message:
            return message


def publish(http: httpx2.Client, topic: str, count: int) -> list[str]:
    ids = [f"{topic}-{n:03}" for n in range(count)]
    lines = "\n".join(json.dumps({"publication_id": name, "topic": topic}) for name in ids)
    http.post("/v1/publications", content=lines, headers={"Content-Type": "application/x-ndjson"})
    return ids


def subscribe(http: httpx2.Client) -> tuple[str, str, dict[str, Any]]:
    topic = new()
    sent = http.post("/v1/subscriptions", json={"subscriber_id": topic, "topic": topic, "starts_at": "-1m"}).json()
    return topic, sent["subscription_id"], sent


def test_no_more_than_the_window_comes_without_an_acknowledgement(served: Served, http: httpx2.Client) -> None:
    topic, _, sent = subscribe(http)
    publish(http, topic, 30)
    got = []
    with socket(served, recipient=topic, after=sent["token"], window=10) as found:
        for _ in range(10):
            last = read(found)
            got.append(last["notification"]["publication_id"])
        with pytest.raises(TimeoutError):
            found.recv(0.5)
        found.send(json.dumps({"ack": last["token"]}))
        for _ in range(10):
            last = read(found)
            got.append(last["notification"]["publication_id"])
    with socket(served, recipient=topic, after=last["token"]) as found:
        got += [read(found)["notification"]["publication_id"] for _ in range(10)]
    assert sorted(got) == [f"{topic}-{n:03}" for n in range(30)]


def test_what_a_named_reader_has_not_acknowledged_comes_again(served: Served, http: httpx2.Client) -> None:
    topic, _, _ = subscribe(http)
    ids = publish(http, topic, 5)
    asked = {"recipient": topic, "group": "screen", "since": "-1m"}
    with socket(served, **asked) as found:
        messages = [read(found) for _ in range(3)]
        found.send(json.dumps({"ack": messages[1]["token"]}))
        found.send(json.dumps({"ack": messages[0]["token"]}))  # has no effect
        read(found)
    with socket(served, **asked) as found:
        again = [read(found)["notification"]["publication_id"] for _ in range(3)]
    first = [each["notification"]["publication_id"] for each in messages]
    assert again[0] == first[2]
    assert {*first, *again} == {*ids}


def test_what_is_wrong_is_said_before_the_end(served: Served, guarded: Served) -> None:
    for asked, status in (({"window": "0"}, 400), ({"group": "x"}, 422), ({"after": "?"}, 400)):
        with socket(served, **asked) as found:
            assert read(found)["problem"]["status"] == status
            with pytest.raises(ConnectionClosed):
                found.recv(PATIENCE)
    with socket(served) as found:
        found.send("no json")
        assert read(found)["problem"]["status"] == 400
    with socket(guarded) as found:
        assert read(found)["problem"]["status"] == 401
    with socket(guarded, {"Authorization": f"Bearer {token()}"}, recipient="bert") as found:
        assert read(found)["problem"]["status"] == 403
    with pytest.raises(InvalidStatus), socket(served, {"Origin": "https://evil.example"}):
        pass
