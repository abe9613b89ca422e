"""Places that choose their topics: who asks near a place hears of what is published there, on every side of every border."""

from __future__ import annotations

from math import cos, degrees, radians, sin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pastforward import Box, Circle, Client, Point, SchemaError
from pastforward.columns.places import EARTH_RADIUS_M
from pastforward.matching.conditions.geometry import overlaps
from pastforward.places import LEVEL, PlaceError, bounds, cell, cells, smallest_cell
from pastforward.schemas import Predicate
from pastforward.testing import System

longitudes = st.floats(-180, 180) | st.sampled_from([-180.0, -179.9999, 0.0, 90.0, 179.9999, 180.0])
latitudes = st.floats(-89.9, 89.9) | st.sampled_from([0.0, -45.0, 45.0])
circles = st.builds(Circle, longitudes, latitudes, st.floats(0, 2_000_000) | st.sampled_from([0.0, 1.0, 500.0]))


def beside(circle: Circle, bearing: float, share: float) -> Point:
    """A point at a share of the radius from the centre, roughly."""
    reach = degrees(share * circle.radius_m / EARTH_RADIUS_M)
    lat = circle.lat + reach * cos(radians(bearing))
    lon = circle.lon + reach * sin(radians(bearing)) / max(0.01, cos(radians(circle.lat)))
    return Point((lon + 180) % 360 - 180, max(-90.0, min(90.0, lat)))


def is_in(place: str, area: str) -> bool:
    return not area or place == area or place.startswith(area + ".")


@given(circles, st.floats(0, 360), st.floats(0, 1.2), st.integers(1, 8))
@example(Circle(0.0, 0.0, 500.0), 315.0, 0.9, 8)
@example(Circle(180.0, 10.0, 500.0), 90.0, 0.9, 8)
def test_the_cells_of_a_circle_hold_all_its_places(circle: Circle, bearing: float, share: float, most: int) -> None:
    chosen = cells(circle, most)
    assert 1 <= len(chosen) <= most
    assert not any(a != b and is_in(a, b) for a in chosen for b in chosen)
    point = beside(circle, bearing, share)
    if overlaps(point, circle):
        assert any(is_in(cell(point.lon, point.lat), each) for each in chosen)


@given(st.floats(-170, 170), st.floats(-60, 60), st.floats(1_000, 500_000))
@example(0.0, 0.0, 1_000.0)
@example(90.0, 45.0, 1_000.0)
def test_eight_cells_are_close_to_a_circle_wherever_it_lies(lon: float, lat: float, radius: float) -> None:
    """In degrees: a circle on the border of the quarters of the world does not fall to the root."""
    around = 2 * degrees(radius / EARTH_RADIUS_M)
    box = around * around / cos(radians(lat))
    area = sum(
        (east - west) * (north - south) for west, south, east, north in map(bounds, cells(Circle(lon, lat, radius)))
    )
    assert area < 5 * box


def test_cells_of_a_level() -> None:
    assert cell(8.54, 47.37, 4) == "2.1.3.3"
    assert len(cell(8.54, 47.37).split(".")) == LEVEL
    assert smallest_cell(Circle(8.54, 47.37, 500)).startswith("2.1.3.3")
    assert cells(Box(-180, -90, 180, 90)) == [""]
    with pytest.raises(PlaceError, match="level 25 is not in the tree"):
        cell(8.54, 47.37, 25)


def scene(system: System) -> None:
    """On the border of all four quarters of the world."""
    client = system.client()
    for name, lon, lat in (("nw", -0.001, 0.001), ("se", 0.001, -0.001), ("far", 0.5, 0.5), ("beside", 0.0032, 0.0032)):
        client.publish({"kind": "ice"}, at=Point(lon, lat), publication_id=name)
    client.publish({"kind": "fire"}, at=Point(0.0, 0.0), publication_id="fire")
    client.publish({"kind": "ice", "place": Point(0.0, 0.0)}, publication_id="of the world")
    system.settle()
    with client.subscribe("kind = 'ice'", subscriber_id="anna", near=Circle(0, 0, 500), starts_at="-10m") as handle:
        handle.wait()
        assert {next(handle).publication_id for _ in range(3)} == {"nw", "se", "of the world"}
        client.publish_many([{"attributes": {"kind": "ice"}, "at": Point(0.001, 0.001), "publication_id": "ne"}])
        assert next(handle).publication_id == "ne"
        handle.replace(near=Circle(0.5, 0.5, 500), where="kind = 'ice'")
        handle.wait()
        found = next(handle)
        assert (found.publication_id, found.content.attributes["place"]) == ("far", Point(0.5, 0.5))
        system.settle()
        assert handle.next(0.0) is None
        assert client.try_condition("kind = 'ice'", near=Circle(0, 0, 500)).matched == 4


def test_near_and_at(pastforward: System) -> None:
    scene(pastforward)


@pytest.mark.pastforward_broker
def test_near_and_at_on_a_broker(pastforward: System) -> None:
    scene(pastforward)


def test_below_a_topic_and_in_every_form(pastforward: System) -> None:
    client = pastforward.client()
    structured = ((Predicate("kind", "=", "ice"),), (Predicate("kind", "=", "fog"),))
    asked = {"subscriber_id": "anna", "topic": "weather/", "near": Circle(8.5, 47.4, 100)}
    handles = client.subscribe_many([{**asked, "where": structured}, {**asked, "near": Box(8, 47, 9, 48)}])
    assert all(handle.subscription.topic.startswith(client.names.topic("weather/") + ".2.1.") for handle in handles)
    client.publish({"kind": "ice"}, topic="weather/", at=Circle(8.5, 47.4, 10))
    client.publish({"kind": "ice"}, at=Point(8.5, 47.4))
    assert [handle.next() is not None for handle in handles] == [True, True]
    assert [handle.next() for handle in handles] == [None, None]


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (lambda c: c.subscribe(subscriber_id="a", near=Circle(200, 0, 1)), "near: longitude 200"),
        (lambda c: c.subscribe(subscriber_id="a", near=Circle(0, 0, -1)), "radius must be a number of metres"),
        (lambda c: c.subscribe(subscriber_id="a", near="Zurich"), "near must be a Circle or a Box, not 'Zurich'"),
        (lambda c: c.subscribe(subscriber_id="a", near=Circle(0, 0, 1), topic=["1", "2"]), "needs a single topic"),
        (lambda c: c.subscribe(subscriber_id="a", topic=7), "topic must be a path such as '1.4', a name, or a list"),
        (lambda c: c.subscribe(subscriber_id="a", topic=[]), "there are 0 topics"),
        (lambda c: c.publish(at=Point(0, 91)), "at: longitude 0, latitude 91"),
        (lambda c: c.publish(at=(8.5, 47.4)), "at must be a Point, a Circle or a Box"),
        (lambda c: c.publish(at=Point("a", 1)), "at must have numbers"),
        (lambda c: c.publish({"place": Point(1, 1)}, at=Point(2, 2)), "leave one out"),
        (lambda c: c.publish_many([{"at": Point(0, 91)}]), "at: longitude 0, latitude 91"),
        (lambda c: c.publish(topic="roads//I-95"), "has an empty name"),
    ],
)
def test_what_is_wrong_is_said(pastforward: System, send: object, words: str) -> None:
    client: Client = pastforward.client()
    with pytest.raises(SchemaError, match=words):
        send(client)  # type: ignore[operator]
