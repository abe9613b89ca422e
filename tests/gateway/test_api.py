"""What a program without a Kafka client can do."""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.gateway.conftest import Events, Served

pytestmark = pytest.mark.broker


def new() -> str:
    """An id, and a topic of its own: the tests share a system."""
    return f"{uuid.uuid4().int >> 66}"


def subscribe(http: httpx2.Client, **fields: Any) -> dict[str, Any]:
    answer = http.post("/v1/subscriptions", json={"subscriber_id": "anna", **fields})
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


def problem(answer: httpx2.Response, status: int, about: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["type"] == f"urn:pastforward:problem:{about}"
    assert found["status"] == status
    return found


def test_a_publication_is_notified_by_events_and_by_pages(http: httpx2.Client) -> None:
    topic = new()
    sent = subscribe(http, topic=topic, where="severity >= 3")
    events = Events(http, recipient="anna", subscription=sent["subscription_id"])
    body = {"topic": f"{topic}.1", "attributes": {"severity": 4, "place": {"lon": 1.5, "lat": 2}}}
    published = http.post("/v1/publications", json=body)
    assert published.status_code == 201
    found = events.notification()
    assert found["publication_id"] == published.json()["publication_id"]
    assert found["content"]["attributes"] == {"severity": 4, "place": {"lon": 1.5, "lat": 2.0}}
    page = http.get("/v1/notifications", params={"recipient": "anna", "after": sent["token"], "wait": 10}).json()
    assert found in page["notifications"]
    rest = http.get("/v1/notifications", params={"recipient": "anna", "after": page["token"]}).json()
    assert found not in rest["notifications"]
    events.close()


def test_what_came_first_is_found_too(http: httpx2.Client) -> None:
    topic = new()
    http.post("/v1/publications", json={"publication_id": f"{topic}-p", "topic": topic, "attributes": {"a": 1}})
    sent = subscribe(http, topic=topic, starts_at="-10m")
    page = http.get("/v1/notifications", params={"recipient": "anna", "after": sent["token"], "wait": 20}).json()
    assert [(n["phase"], n["publication_id"]) for n in page["notifications"]] == [("past", f"{topic}-p")]


def test_a_stream_goes_on_behind_the_last_event_that_was_read(http: httpx2.Client) -> None:
    topic = new()
    name = subscribe(http, topic=topic)["subscription_id"]
    first = Events(http, subscription=name)
    first.begun()
    lines = "\n".join(json.dumps({"publication_id": f"{topic}-{n}", "topic": topic}) for n in range(50))
    answer = http.post("/v1/publications", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert answer.json() == {"published": 50, "refused": 0, "problems": []}
    got = [first.notification()["publication_id"] for _ in range(20)]
    first.close()
    second = Events(http, subscription=name, headers={"Last-Event-ID": first.last_id})
    got += [second.notification()["publication_id"] for _ in range(30)]
    assert sorted(got) == sorted(f"{topic}-{n}" for n in range(50))
    second.close()


def test_lines_that_are_wrong_are_named_and_the_others_are_sent(http: httpx2.Client) -> None:
    topic = new()
    sent = subscribe(http, topic=topic)
    lines = [
        json.dumps({"publication_id": f"{topic}-1", "topic": topic, "attributes": {"a": 1}}),
        "",
        "no json",
        json.dumps({"topic": "1.x"}),
        json.dumps({"topic": topic, "atributes": {}}),
        json.dumps({"publication_id": f"{topic}-2", "topic": topic, "where": "a = 1"}),
    ]
    answer = http.post(
        "/v1/publications", content="\r\n".join(lines), headers={"Content-Type": "application/x-ndjson; charset=utf-8"}
    )
    found = answer.json()
    assert (answer.status_code, found["published"], found["refused"]) == (200, 2, 3)
    assert [(each["line"], each.get("kind")) for each in found["problems"]] == [
        (3, None),
        (4, "bad_path"),
        (5, "unknown_field"),
    ]
    page = http.get("/v1/notifications", params={"recipient": "anna", "after": sent["token"], "wait": 10})
    assert f"{topic}-1" in page.text
    none = http.post("/v1/publications", content="[]\n{", headers={"Content-Type": "application/x-ndjson"})
    assert (none.status_code, none.json()["refused"]) == (422, 2)


def test_subscriptions_are_listed_shown_changed_and_withdrawn(http: httpx2.Client) -> None:
    topic = new()
    names = sorted(f"{topic}/{n}" for n in range(5))
    for name in names:
        place = f"/v1/subscriptions/{quote(name, safe='')}"
        answer = http.put(place, json={"subscriber_id": topic, "topic": f"{topic}.7", "where": "Speed > 9"})
        assert (answer.status_code, answer.json()["subscription_id"]) == (201, name)
        assert answer.headers["location"] == f"/v1/subscriptions/{quote(name)}"
    seen: list[str] = []
    after = None
    while True:
        page = http.get("/v1/subscriptions", params={"subscriber": topic, "limit": 2, "after": after or ""}).json()
        seen += [each["subscription_id"] for each in page["subscriptions"]]
        after = page["next"]
        if after is None:
            break
    assert seen == names
    found = http.get("/v1/subscriptions", params={"q": f"{topic} SPEED"}).json()["subscriptions"]
    assert [each["subscription_id"] for each in found] == names
    assert len(http.get("/v1/subscriptions", params={"topic": topic}).json()["subscriptions"]) == 5
    place = f"/v1/subscriptions/{names[0]}"
    before = http.get(place).json()
    assert http.patch(place, json={"ends_at": "+1h", "where": "speed > 10"}).status_code == 200
    now = http.get(place).json()
    assert now["where"] == "speed > 10"
    assert now["starts_at"] == before["starts_at"]
    assert http.patch(place, json={"ends_at": "now"}).status_code == 200
    assert http.get(place).json()["state"] == "ended"
    live = http.get("/v1/subscriptions", params={"subscriber": topic, "state": "live"}).json()["subscriptions"]
    assert len(live) == 4
    assert http.delete(place).status_code == 204
    problem(http.get(place), 404, "not-found")
    problem(http.delete(place), 404, "not-found")
    problem(http.patch(f"/v1/subscriptions/{names[1]}", json={"nothing": 1}), 422, "refused")


def test_an_error_has_the_routers_words_and_the_place_in_the_condition(http: httpx2.Client) -> None:
    found = problem(
        http.post("/v1/subscriptions", json={"subscriber_id": "a", "where": "severity >== 3"}), 422, "bad-condition"
    )
    assert found["position"] == 11
    found = problem(http.post("/v1/subscriptions", json={"subscriber_id": "a", "topc": "1"}), 422, "refused")
    assert found["kind"] == "unknown_field"
    assert "topic" in found["detail"]
    problem(http.post("/v1/subscriptions", json={"topic": "1"}), 422, "refused")
    problem(http.post("/v1/subscriptions", content="{"), 400, "bad-request")
    problem(http.post("/v1/publications", json={"topic": "01"}), 422, "refused")
    problem(http.post("/v1/publications", content=b"{" + b" " * (1 << 20)), 413, "too-large")
    problem(http.get("/v1/subscriptions?limit=0"), 400, "bad-request")
    problem(http.get("/v1/notifications?after=nonsense"), 400, "bad-request")
    problem(http.get("/v1/nothing"), 404, "not-found")
    problem(http.delete("/v1/publications"), 405, "method-not-allowed")


def test_a_token_beyond_the_log_is_gone(http: httpx2.Client) -> None:
    beyond = http.get("/v1/notifications", params={"recipient": "anna", "after": "AQD_____Dw"})
    if beyond.status_code == 400:  # anna's is the other partition
        beyond = http.get("/v1/notifications", params={"recipient": "anna", "after": "AQH_____Dw"})
    problem(beyond, 410, "token-expired")


def test_a_write_with_a_key_has_the_effect_of_one(http: httpx2.Client) -> None:
    topic, key = new(), {"Idempotency-Key": uuid.uuid4().hex}
    body = {"subscriber_id": "anna", "topic": topic, "starts_at": "-1m"}
    first, second = (http.post("/v1/subscriptions", json=body, headers=key) for _ in range(2))
    assert first.json() == second.json()
    other = http.post("/v1/subscriptions", json={**body, "topic": "9"}, headers=key)
    problem(other, 422, "conflict")
    key = {"Idempotency-Key": uuid.uuid4().hex}
    answers = [http.post("/v1/publications", json={"topic": topic}, headers=key).json() for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    http.post("/v1/publications", json={"topic": topic, "publication_id": f"{topic}-last"})
    events = Events(http, recipient="anna", after=first.json()["token"], subscription=first.json()["subscription_id"])
    got = [events.notification()["publication_id"] for _ in range(2)]
    assert got == [answers[0]["publication_id"], f"{topic}-last"]
    events.close()


def test_a_refusal_of_the_workers_is_told_to_whoever_waits(http: httpx2.Client) -> None:
    taken = http.post("/v1/subscriptions?wait=20", json={"subscriber_id": "anna", "topic": new()})
    assert taken.status_code == 201


def test_explain_and_try(http: httpx2.Client) -> None:
    topic = new()
    name = subscribe(http, topic=topic, where="a > 3")["subscription_id"]
    ids = [http.post("/v1/publications", json={"topic": topic, "attributes": {"a": n}}).json() for n in (2, 5)]
    events = Events(http, recipient="anna", subscription=name, since="-1m")
    assert events.notification()["publication_id"] == ids[1]["publication_id"]
    events.close()
    asked = {"subscription_id": name, "publication_id": ids[1]["publication_id"]}
    assert http.get("/v1/explain", params=asked).json()["outcome"] == "matched"
    asked["publication_id"] = ids[0]["publication_id"]
    assert http.get("/v1/explain", params=asked).json()["outcome"] == "not matched"
    problem(http.get("/v1/explain"), 400, "bad-request")
    trial = http.post("/v1/try", json={"where": "a > 3", "topic": topic, "since": "-5m"}).json()
    assert (trial["seen"], trial["matched"]) == (2, 1)
    assert trial["misses"][0]["distance"] == 1
    problem(http.post("/v1/try", json={"where": "a >"}), 422, "bad-condition")
    problem(http.post("/v1/try", json={"wher": "a"}), 400, "bad-request")
    assert http.post("/v1/conditions", json={"where": "NOT a <= 3"}).json()["normal_form"] == "a > 3"
    assert http.get(f"/v1/publications/{ids[0]['publication_id']}").json()["attributes"] == {"a": 2}


def test_dead_letters_are_listed_shown_and_sent_again(http: httpx2.Client, served: Served, outside_letter: str) -> None:
    found = http.get("/v1/dead-letters", params={"kind": "unknown_field"}).json()
    (letter,) = [each for each in found["dead_letters"] if each["id"] == outside_letter]
    shown = http.get(f"/v1/dead-letters/{letter['letter']}").json()
    assert shown["value"] == '{"topc": "1"}'
    problem(http.post(f"/v1/dead-letters/{letter['letter']}/resend?dry_run=true"), 409, "conflict")
    problem(http.get("/v1/dead-letters/0-999999"), 404, "not-found")


@pytest.fixture
def outside_letter(system: Any) -> str:
    """The id of a record that a worker has refused."""
    from tests.outside import Outside

    name = f"bad-{new()}"
    client = Outside(system.bootstrap, "gateway.")
    client.send("publications", name, {"topc": "1"})
    client.wait("dead-letters", lambda m: m.key() == name.encode())
    client.close()
    return name


def test_status_and_offers(http: httpx2.Client) -> None:
    status = http.get("/v1/status").json()
    assert (status["partitions"], status["trouble"], len(status["workers"])) == (2, None, 1)
    topic = new()
    lot = {
        "topic": topic,
        "attributes": {"kind": "lot"},
        "where": "price >= 10",
        "best": {"attribute": "price", "prefer": "highest"},
    }
    name = http.post("/v1/publications", json=lot).json()["publication_id"]
    bid = subscribe(http, topic=topic, where="kind = 'lot' AND price <= 50", semantics="intersect", starts_at="-1m")
    page = http.get("/v1/notifications", params={"recipient": "anna", "after": bid["token"], "wait": 20}).json()
    assert any(n["publication_id"] == name for n in page["notifications"])
    (offer,) = http.get("/v1/best-offers", params={"publication_id": name}).json()["best_offers"]
    assert offer["subscription_id"] == bid["subscription_id"]
