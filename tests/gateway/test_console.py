"""The console in a real browser, against a real broker and worker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.gateway import browser
from tests.gateway.conftest import SECRET, Served, token
from tests.gateway.test_api import new, subscribe
from tests.outside import PATIENCE, Outside

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        browser.executable() is None, reason="no browser: install one (Debian: apt-get install chromium)"
    ),
]
MS = PATIENCE * 1000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.browser() as found:
        yield found


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    found = opened(chromium)
    yield found
    assert found.troubles == []
    found.context.close()


def opened(chromium: Any, **options: Any) -> Any:
    """A page that notes what a browser complains of: scripts that fail, and what the policy forbids."""
    page = chromium.new_context(**options).new_page()
    page.troubles = []
    page.on("pageerror", lambda error: page.troubles.append(str(error)))

    def note(message: Any) -> None:
        if message.type == "error" and "422" not in message.text:  # as a condition has that is half typed
            page.troubles.append(message.text)

    page.on("console", note)
    page.set_default_timeout(MS)
    return page


def violations(page: Any) -> list[str]:
    page.evaluate(browser.AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]


@pytest.fixture(scope="module")
def filled(served: Served, system: Any) -> dict[str, str]:
    """Something to see on each page."""
    topic = new()
    with served.client() as http:
        bid = subscribe(http, topic=topic, where="kind = 'lot' AND price <= 50", semantics="intersect", starts_at="-1m")
        lot = {
            "topic": topic,
            "attributes": {"kind": "lot"},
            "where": "price >= 1",
            "best": {"attribute": "price", "prefer": "highest"},
        }
        name = http.post("/v1/publications", json=lot).json()["publication_id"]
        wanted = {"recipient": "anna", "after": bid["token"], "subscription": bid["subscription_id"], "wait": 20}
        assert http.get("/v1/notifications", params=wanted).json()["notifications"]
        cell = subscribe(http, topic="2.1.3", where="severity >= 1")["subscription_id"]
    client = Outside(system.bootstrap, "gateway.")
    client.send("publications", f"bad-{topic}", {"topc": "1"})
    (letter,) = client.wait("dead-letters", lambda m: m.key() == f"bad-{topic}".encode())
    client.close()
    place = f"{letter.partition()}-{letter.offset()}"
    return {"topic": topic, "lot": name, "bid": bid["subscription_id"], "cell": cell, "letter": place}


def test_every_page_can_be_read_by_everybody(chromium: Any, served: Served, filled: dict[str, str]) -> None:
    paths = [*browser.PAGES, browser.TRIED, "try?where=severity+%3E", f"subscriptions/{filled['bid']}"]
    paths += [
        f"dead-letters/{filled['letter']}",
        f"explain?subscription_id={filled['bid']}&publication_id={filled['lot']}",
    ]
    wide = opened(chromium, viewport={"width": 1200, "height": 800}, color_scheme="light")
    dark = opened(chromium, viewport={"width": 390, "height": 844}, color_scheme="dark")
    for page in (wide, dark):
        for path in paths:
            answer = page.goto(f"{served.url}/{path}")
            assert answer.status == 200, path
            page.locator("details summary").first.click()
            assert violations(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert "pastforward" in page.locator("details pre").first.text_content() or path == "api"
        assert page.troubles == []
        page.context.close()


def test_the_overview_moves(page: Any, served: Served, http: httpx2.Client) -> None:
    page.goto(served.url)
    page.wait_for_selector("#chart canvas")
    before = page.locator("#n-subscriptions").text_content()
    subscribe(http, topic=new())
    page.wait_for_function("before => document.querySelector('#n-subscriptions').textContent !== before", arg=before)


def test_a_condition_is_tried_and_subscribed_to(page: Any, served: Served, http: httpx2.Client) -> None:
    topic = new()
    for number in (1, 2, 5):
        http.post("/v1/publications", json={"topic": topic, "attributes": {"a": number}})
    page.goto(f"{served.url}/try")
    page.fill("#where", "a >== 3")
    assert page.wait_for_selector("#meaning mark").text_content() == "="
    page.fill("#where", "NOT a < 3")
    page.wait_for_function("() => document.querySelector('#meaning').textContent === 'a >= 3'")
    page.fill("#topic", topic)
    page.keyboard.press("Enter")
    assert page.locator("#matched").text_content() == "1"
    page.fill("#subscriber", "tried")
    page.get_by_role("button", name="Subscribe").click()
    page.wait_for_url(re.compile("/subscriptions/"))
    name = page.locator("h1").text_content()
    with served.client() as client:
        assert client.get(f"/v1/subscriptions/{name}").json()["subscriber_id"] == "tried"
        wanted = {"recipient": "tried", "since": "-5m", "wait": 20}
        assert client.get("/v1/notifications", params=wanted).json()["notifications"]
    page.reload()
    page.get_by_role("link", name="why").click()
    assert page.locator("#outcome").text_content() == "matched"
    page.go_back()
    page.fill("#until", "+2h")
    page.get_by_role("button", name="Extend").click()
    assert "it ends at" in page.get_by_role("status").text_content()
    page.get_by_role("button", name="End now").click()
    assert page.get_by_role("status").text_content() == "ended"
    page.get_by_role("button", name="Withdraw").click()
    page.wait_for_url(re.compile("/subscriptions$"))
    assert http.get(f"/v1/subscriptions/{name}").status_code == 404


def test_the_map_shows_cells_places_and_notifications(
    page: Any, served: Served, filled: dict[str, str], http: httpx2.Client
) -> None:
    page.goto(f"{served.url}/map")
    page.wait_for_function("() => /^[1-9]/.test(document.querySelector('#counts').textContent)")
    body = {"topic": "2.1.3.4", "attributes": {"severity": 2, "place": {"lon": 8.5, "lat": 47.4}}}
    name = http.post("/v1/publications", json=body).json()["publication_id"]
    page.wait_for_selector(f"#feed li:has-text('{name}')")
    page.wait_for_function("() => /, [1-9]/.test(document.querySelector('#counts').textContent)")


def test_a_dead_letter_is_looked_at(page: Any, served: Served, filled: dict[str, str]) -> None:
    page.goto(f"{served.url}/dead-letters?kind=unknown_field")
    page.get_by_role("link", name=filled["letter"], exact=True).click()
    assert '{"topc": "1"}' in page.locator("pre").first.text_content()
    page.get_by_role("button", name="Only look").click()
    assert "refused again" in page.get_by_role("status").text_content()


def test_whoever_is_not_known_says_who_they_are_first(page: Any, guarded: Served) -> None:
    page.goto(f"{guarded.url}/subscriptions")
    assert page.url.endswith("/login")
    page.fill("#token", token("carla", reads=["7"]))
    page.keyboard.press("Enter")
    page.wait_for_url(f"{guarded.url}/")
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.goto(f"{guarded.url}/try?where=&topic=8")
    assert "may not read topic 8" in page.locator("#content").text_content()
    page.get_by_role("button", name="Leave (carla)").click()
    assert page.url.endswith("/login")
    assert SECRET.decode() not in guarded.said
    assert json.dumps(page.context.cookies()) == "[]"


def test_the_keyboard_reaches_everything(page: Any, served: Served) -> None:
    page.goto(f"{served.url}/try")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "where"
