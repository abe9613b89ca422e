"""Typed content: of a dataclass, a struct and a model; what does not fit is said, and reading goes on."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

from pastforward import Client, ContentError, Point, UserError
from pastforward.client.models import converter_of
from pastforward.testing import System

msgspec = pytest.importorskip("msgspec")
pydantic = pytest.importorskip("pydantic")


@dataclass
class Incident:
    kind: Literal["accident", "ice"]
    severity: int
    place: Point
    speed: float = 0.0
    at: datetime | None = None
    lane: int | str | None = None
    notes: list[str] = field(default_factory=list)


class Struct(msgspec.Struct):  # type: ignore[misc, name-defined]
    kind: Literal["accident", "ice"]
    severity: int
    place: Point
    speed: float = 0.0
    at: datetime | None = None


class Model(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    model_config = pydantic.ConfigDict(strict=True)
    kind: Literal["accident", "ice"]
    severity: int
    place: Point
    speed: float = 0.0
    at: datetime | None = None


GOOD = {"kind": "ice", "severity": 3, "place": Point(8.5, 47.4), "at": datetime(2026, 1, 1, tzinfo=UTC), "more": True}
ALL = pytest.mark.parametrize("model", [Incident, Struct, Model])


@ALL
def test_what_fits(pastforward: System, model: Any) -> None:
    client: Client = pastforward.client()
    with client.subscribe("severity >= 2", subscriber_id="anna", model=model) as handle:
        client.publish(GOOD)
        found = next(handle)
        rest = {name: value for name, value in GOOD.items() if name != "more"}
        assert (found.data, found.error) == (model(**rest), None)
        assert found.data is found.data
    (again,) = client.notifications("anna", since="-1h", model=model, timeout=0.1)
    assert again.data == found.data
    (grouped,) = client.notifications("anna", group="typed", since="-1h", model=model, timeout=0.1)
    assert grouped.data == found.data


@ALL
@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"severity": "high"}, "severity"),
        ({"severity": True}, "severity"),
        ({"severity": 2.5}, "severity"),
        ({"kind": "fire"}, "kind"),
        ({"place": "Zurich"}, "place"),
        ({"severity": None}, "severity"),
        ({"at": 7}, "at"),
    ],
)
def test_what_does_not_fit_comes_all_the_same(pastforward: System, model: Any, wrong: Any, name: str) -> None:
    client: Client = pastforward.client()
    with client.subscribe(subscriber_id="anna", model=model) as handle:
        given = {key: value for key, value in {**GOOD, **wrong}.items() if value is not None}
        client.publish(given, publication_id="wrong")
        client.publish(GOOD, publication_id="right")
        bad, good = next(handle), next(handle)
    assert (bad.publication_id, good.publication_id, good.error) == ("wrong", "right", None)
    assert bad.error is not None
    assert bad.error.field == name
    with pytest.raises(ContentError, match=name):
        _ = bad.data
    assert pickle.loads(pickle.dumps(bad.error)).field == name


def test_without_content_or_model(pastforward: System) -> None:
    client: Client = pastforward.client()
    with client.subscribe(subscriber_id="anna", model=Incident, deliver="ids") as handle:
        client.publish(GOOD)
        error = next(handle).error
        assert error is not None
        assert "asks for ids alone" in str(error)
    with client.subscribe(subscriber_id="anna") as handle:
        client.publish(GOOD)
        with pytest.raises(UserError, match="give model="):
            _ = next(handle).data


@pytest.mark.parametrize("model", [int, "Incident", Incident("ice", 1, Point(0, 0)), dict])
def test_what_is_no_model(pastforward: System, model: Any) -> None:
    with pytest.raises((UserError, TypeError), match=r"write a dataclass|unhashable"):
        pastforward.client().subscribe(subscriber_id="anna", model=model)


def test_an_object_of_the_class_says_itself_what_is_wrong() -> None:
    @dataclass
    class Positive:
        n: int

        def __post_init__(self) -> None:
            if self.n < 0:
                raise ValueError("n is negative")

    with pytest.raises(ContentError, match="Positive: n is negative"):
        converter_of(Positive)({"n": -1})
