"""Who somebody is decides what they see; pages elsewhere decide nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.requests import HTTPConnection

from pastforward.errors import UserError
from pastforward.gateway.identity import Authenticator
from pastforward.gateway.limits import Throttle
from pastforward.gateway.options import GatewayOptions, Limits
from pastforward.gateway.problems import Problem
from tests.gateway.conftest import SECRET, Events, Served, token
from tests.gateway.test_api import new, problem


def of(served: Served, name: str, **claims: Any) -> httpx2.Client:
    return served.client(headers={"Authorization": f"Bearer {token(name, **claims)}"})


@pytest.mark.broker
def test_nothing_is_shown_to_nobody(guarded: Served) -> None:
    with guarded.client() as nobody:
        for path in ("subscriptions", "notifications", "dead-letters", "status", "explain", "best-offers"):
            answer = nobody.get(f"/v1/{path}")
            problem(answer, 401, "unauthenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        bad = token("anna", exp=1)
        problem(nobody.get("/v1/status", headers={"Authorization": f"Bearer {bad}"}), 401, "unauthenticated")
        none = jwt.encode({"sub": "anna", "exp": 9e9}, "", algorithm="none")
        problem(nobody.get("/v1/status", headers={"Authorization": f"Bearer {none}"}), 401, "unauthenticated")
        other = jwt.encode({"sub": "anna", "exp": 9e9}, "x" * 40, algorithm="HS256")
        problem(nobody.get("/v1/status", headers={"Authorization": f"Bearer {other}"}), 401, "unauthenticated")
    assert token("anna") not in guarded.said


@pytest.mark.broker
def test_others_subscriptions_notifications_and_letters_are_not_there(guarded: Served, http: httpx2.Client) -> None:
    one, two, topic = new(), new(), "1." + new()
    with of(guarded, one) as anna, of(guarded, two) as bert:
        mine = anna.post("/v1/subscriptions", json={"topic": topic, "where": "a = 1"}).json()
        name = mine["subscription_id"]
        assert name.startswith(one + "/")
        place = f"/v1/subscriptions/{name}"
        assert anna.get(place).json()["subscriber_id"] == one
        for answer in (bert.get(place), bert.patch(place, json={"ends_at": "now"}), bert.delete(place)):
            problem(answer, 404, "not-found")
        assert bert.get("/v1/subscriptions").json()["subscriptions"] == []
        problem(bert.put(place, json={"topic": topic}), 403, "forbidden")
        problem(bert.post("/v1/subscriptions", json={"topic": topic, "subscriber_id": one}), 403, "forbidden")
        problem(bert.get("/v1/notifications", params={"recipient": one}), 403, "forbidden")
        problem(bert.post("/v1/publications", json={"topic": topic, "publication_id": f"{one}/1"}), 403, "forbidden")
        problem(bert.post("/v1/publications", json={"topic": topic, "publisher_id": one}), 403, "forbidden")
        events = Events(anna)
        sent = bert.post("/v1/publications", json={"topic": topic, "attributes": {"a": 1}}).json()["publication_id"]
        assert sent.startswith(two + "/")
        assert events.notification()["publication_id"] == sent
        events.close()
        asked = {"subscription_id": name, "publication_id": sent}
        assert anna.get("/v1/explain", params=asked).json()["outcome"] == "matched"
        problem(bert.get("/v1/explain", params=asked), 404, "not-found")
        # the page of whoever was not told ends where anna's notification lies
        assert bert.get("/v1/notifications", params={"since": "-1m"}).json()["notifications"] == []
    assert http.get(place).status_code == 200  # an open gateway of the same system shows all


@pytest.mark.broker
def test_topics_are_those_of_the_token(guarded: Served) -> None:
    name = new()
    with of(guarded, name, reads=["1.4"], writes=["1.5"]) as anna:
        # several topics are so many claims, and a name becomes a path that lies elsewhere
        for topic in ("1", "", "1.5", "1.40", "1.4.1,2.3", ["1.4.1", "2.3"]):
            problem(anna.post("/v1/subscriptions", json={"topic": topic}), 403, "forbidden")
            problem(anna.post("/v1/try", json={"topic": topic}), 403, "forbidden") if isinstance(
                topic, str
            ) and topic != "1.5" else None
        problem(anna.post("/v1/try", json={"topic": "1.4.1/2"}), 403, "forbidden")
        problem(anna.post("/v1/publications", json={"topic": "1.4"}), 403, "forbidden")
        lines = '{"topic": "1.4"}\n{"topic": "1.5.6"}\n'
        answer = anna.post("/v1/publications", content=lines, headers={"Content-Type": "application/x-ndjson"}).json()
        assert (answer["published"], answer["refused"]) == (1, 1)
        for _ in range(3):
            made = anna.post("/v1/subscriptions", json={"topic": "1.4.2"})
            assert made.status_code == 201, made.text
        place = f"/v1/subscriptions/{made.json()['subscription_id']}"
        for topic in ("1.5", "1.4.1,2.3", ["1.4.1,2.3"], "1.4.1/2"):
            problem(anna.patch(place, json={"topic": topic}), 403, "forbidden")
        over = anna.post("/v1/subscriptions", json={"topic": "1.4.2"})
        problem(over, 429, "too-many")
        assert over.headers["retry-after"]
    with of(guarded, name, reads=[], writes=[]) as nothing:
        problem(nothing.post("/v1/subscriptions", json={"topic": "1.4"}), 403, "forbidden")
        problem(nothing.post("/v1/publications", json={"topic": "1.5"}), 403, "forbidden")


@pytest.mark.broker
def test_pages_elsewhere_cannot_use_an_open_gateway(served: Served, http: httpx2.Client) -> None:
    body: dict[str, Any] = {"json": {"topic": "1"}}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        problem(http.post("/v1/publications", headers=headers, **body), 403, "cross-origin")
    problem(http.get("/v1/status", headers={"Host": "evil.example"}), 403, "cross-origin")
    assert http.post("/v1/publications", headers={"Origin": served.url}, **body).status_code == 201
    answer = http.get("/v1/status", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_an_open_gateway_stays_at_home() -> None:
    with pytest.raises(UserError, match="--insecure"):
        GatewayOptions(bind="0.0.0.0").check()
    with pytest.raises(UserError, match="32 bytes"):
        GatewayOptions(hs256_secret=b"short").check()
    for options in (
        GatewayOptions(),
        GatewayOptions(bind="::1"),
        GatewayOptions(bind="0.0.0.0", insecure=True),
        GatewayOptions(bind="0.0.0.0", hs256_secret=SECRET),
    ):
        options.check()


def connection(text: str) -> HTTPConnection:
    return HTTPConnection({"type": "http", "headers": [(b"authorization", f"Bearer {text}".encode())]})


def test_tokens_signed_with_a_key_of_a_file(tmp_path: Path) -> None:
    key, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "ES256"}]}))
    authenticator = Authenticator(GatewayOptions(jwks=str(file), audience="here"))
    claims = {"sub": "anna", "exp": 9e9, "aud": "here", "pastforward_read": "1.4"}

    def signed(by: Any = key, kid: str = "one", **more: Any) -> str:
        return jwt.encode({**claims, **more}, by, algorithm="ES256", headers={"kid": kid})

    found = authenticator.identify(connection(signed()))
    assert (found.name, found.reads, found.writes) == ("anna", ("1.4",), ())
    for bad in (
        signed(other),
        signed(kid="two"),
        signed(aud="there"),
        signed(exp=1),
        signed(sub=""),
        signed(sub="anna/bert"),
        signed(pastforward_read=["1.x"]),
        jwt.encode(claims, SECRET, algorithm="HS256"),
        "nonsense",
    ):
        with pytest.raises(Problem) as problem:
            authenticator.identify(connection(bad))
        assert problem.value.status == 401
    file.write_text("[]")
    with pytest.raises(UserError, match="no JSON Web Key Set"):
        Authenticator(GatewayOptions(jwks=str(file)))


def test_who_asks_too_often_is_told_when_to_come_again() -> None:
    now = 0.0
    throttle = Throttle(Limits(requests_a_second=2.0, streams=1), lambda: now)
    for _ in range(4):
        throttle.take("anna")
    throttle.take("bert")
    with pytest.raises(Problem) as problem:
        throttle.take("anna")
    assert problem.value.headers["Retry-After"] == "1"
    now = 0.5
    throttle.take("anna")
    with throttle.stream("anna"), pytest.raises(Problem), throttle.stream("anna"):
        pass
    with throttle.stream("anna"):
        pass
