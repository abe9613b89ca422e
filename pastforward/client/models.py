"""Typed content: the attributes of a publication as an instance of a class that the program names with `model=`.

A dataclass, a msgspec struct or a pydantic model; the last two by their own libraries, which have to be installed only where such a class
is. What the publication carries beside the fields of the class is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pastforward.errors import PastforwardError, UserError
from pastforward.matching.conditions.errors import shown

Convert = Callable[[Mapping[str, Any]], Any]


class ContentError(PastforwardError):
    """The content is not what the model says. `field`: the first attribute that is wrong; None: it is not one alone."""

    def __init__(self, field: str | None, reason: str) -> None:
        super().__init__(reason)
        self.field = field

    def __reduce__(self) -> tuple[type[ContentError], tuple[str | None, str]]:
        return type(self), (self.field, str(self))


@cache
def converter_of(model: Any) -> Convert:
    """Makes an instance, or raises `ContentError`."""
    if isinstance(model, type):
        if _is_a(model, "msgspec", "Struct"):
            return _by_msgspec(model)
        if _is_a(model, "pydantic", "BaseModel"):
            return _by_pydantic(model)
        if is_dataclass(model):
            return _by_fields(model)
    raise UserError(f"model is {shown(model)}: write a dataclass, a msgspec.Struct or a pydantic.BaseModel, as a class")


def _is_a(model: type, library: str, name: str) -> bool:
    """Without importing it: whoever has such a class has done so."""
    base = getattr(sys.modules.get(library), name, None)
    return base is not None and issubclass(model, base)


def _by_msgspec(model: type) -> Convert:
    import msgspec

    def convert(attributes: Mapping[str, Any]) -> Any:
        try:
            return msgspec.convert(dict(attributes), model)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$.")
            field = where.rstrip("`").partition(".")[0] or None
            if field is None and "missing required field" in what:
                field = what.rpartition("`")[0].rpartition("`")[2]
            raise ContentError(field, f"{model.__name__}: {error}") from error

    return convert


def _by_pydantic(model: Any) -> Convert:
    import pydantic

    def convert(attributes: Mapping[str, Any]) -> Any:
        try:
            return model.model_validate(dict(attributes))
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0]) if first["loc"] else None
            raise ContentError(field, f"{model.__name__}.{field}: {first['msg']}") from error

    return convert


def _by_fields(model: Any) -> Convert:
    hints = get_type_hints(model)
    wanted = [(each, hints[each.name]) for each in fields(model) if each.init]

    def convert(attributes: Mapping[str, Any]) -> Any:
        given: dict[str, Any] = {}
        for each, hint in wanted:
            value = attributes.get(each.name)
            if value is None and (each.name not in attributes):
                if _has_default(each):
                    continue
                if _fits(None, hint) and hint is not Any:
                    given[each.name] = None
                    continue
                raise ContentError(each.name, f"{model.__name__}.{each.name}: the publication has no such attribute")
            if not _fits(value, hint):
                raise ContentError(each.name, f"{model.__name__}.{each.name} is {shown(value)}, not {_called(hint)}")
            given[each.name] = value
        try:
            return model(**given)
        except (TypeError, ValueError) as error:  # of its __post_init__
            raise ContentError(None, f"{model.__name__}: {error}") from error

    return convert


def _has_default(each: Field[Any]) -> bool:
    return each.default is not MISSING or each.default_factory is not MISSING


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin in (list, tuple):
        inner = [each for each in get_args(hint) if each is not Ellipsis]
        return isinstance(value, list | tuple) and all(not inner or _fits(each, inner[0]) for each in value)
    if origin is not None:
        return value in get_args(hint) if str(origin) == "typing.Literal" else True
    if hint is None or hint is NoneType:
        return value is None
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, int | float)
    return isinstance(value, hint)


def _called(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)
