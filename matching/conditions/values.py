"""The types of attribute values that Python has no type of its own for.

A value of an attribute is one of: `bool`, `int` (64 bits, signed), `float`, `str`, `datetime` (aware, microseconds, UTC),
`Point`, `Box`, `Circle`, `Path`. Nothing converts into anything else, but integers and floats compare as exact numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Point:
    """A place: degrees of longitude and latitude."""

    lon: float
    lat: float


@dataclass(frozen=True, slots=True)
class Circle:
    """All places within `radius_m` metres of a centre, along the great circle."""

    lon: float
    lat: float
    radius_m: float


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, sides included. On the globe x is longitude and y latitude; any other plane will do as well."""

    min_x: float
    min_y: float
    max_x: float
    max_y: float


@dataclass(frozen=True, slots=True)
class Path:
    """A Dewey path: `1.4.2`. The empty text is the root."""

    text: str


Value: TypeAlias = bool | int | float | str | datetime | Point | Box | Circle | Path
