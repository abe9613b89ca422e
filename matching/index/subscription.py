"""A subscription as the index takes it, and the checks of what a caller gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import numpy as np

from pastforward.columns.vocabulary import Scope, Semantics, TimeBasis
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.errors import shown
from pastforward.matching.conditions.normal_form import Constraint, NormalForm
from pastforward.matching.conditions.types import is_encodable, path_components
from pastforward.matching.index import records as r

Identity: TypeAlias = int | str
Moment: TypeAlias = datetime | int

SEMANTICS: Final[dict[str, int]] = {"classical": 0, "symmetric": r.SYMMETRIC, "intersect": r.INTERSECT}
_SCOPES: Final[dict[str, int]] = {"overlap": 0, "subtree": r.SUBTREE_SCOPE}
_TIMES: Final[dict[str, int]] = {"published": 0, "valid": r.VALID_TIME}
_FLAGS: Final = {
    (semantics, scope, time): a | b | c
    for semantics, a in SEMANTICS.items()
    for scope, b in _SCOPES.items()
    for time, c in _TIMES.items()
}
TWO_63: Final = 2**63
# what is certainly a Dewey path; `path_components` decides about the rest, at ten times the cost
_USUAL_TOPIC: Final = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.(?:0|[1-9][0-9]{0,17}))*").fullmatch


# not frozen: that would make each ten times as dear to create, and they come by the thousand
@dataclass(slots=True)
class NewSubscription:
    """What `Index.add` takes, as one object. `topic` may be several, with commas between them: each disjunct is held at each of them."""

    subscription_id: Identity
    disjuncts: NormalForm
    topic: str = ""
    scope: Scope = "overlap"
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    time: TimeBasis = "published"
    semantics: Semantics = "classical"

    def flags(self, identity: Identity) -> int:
        """Of its records. Raises if something about it is wrong. `identity` is its id, of a plain type."""
        topic = self.topic
        if type(identity) is not str and type(identity) is not int:
            raise TypeError(f"a subscription id is an integer or a string, not {shown(identity)}")
        if type(identity) is int and not -TWO_63 <= identity < TWO_63:
            raise ValueError(f"the subscription id {shown(identity)} does not fit 64 bits")
        if type(identity) is str and not is_encodable(identity):
            raise ValueError(f"the subscription id {identity!r} holds half a character; give valid Unicode")
        flags = _FLAGS.get((self.semantics, self.scope, self.time))
        if flags is None:
            for name, value, known in (
                ("scope", self.scope, _SCOPES),
                ("time", self.time, _TIMES),
                ("semantics", self.semantics, SEMANTICS),
            ):
                if value not in known:
                    raise ValueError(f"{name} {value!r} is unknown; write one of {', '.join(known)}")
            raise AssertionError("unreachable")
        if not topic:
            return flags
        if type(topic) is str and "," in topic:
            for each in topic.split(","):
                check_topic(each or None)  # the root among several makes the others needless: nobody means that
            return flags | r.HAS_TOPIC
        check_topic(topic)
        return flags | r.HAS_TOPIC


def normal_form(condition: Condition | NormalForm | str | None) -> NormalForm:
    if condition is None:
        return ((),)
    if isinstance(condition, str):
        return Condition.parse(condition).disjuncts
    if isinstance(condition, Condition):
        return condition.disjuncts
    if not isinstance(condition, tuple | list) or not all(map(_is_disjunct, condition)):
        raise TypeError(
            f"{shown(condition)} is no condition; give a Condition, SQL text, or the disjuncts of a Condition"
        )
    return condition


def _is_disjunct(given: object) -> bool:
    if not isinstance(given, tuple | list):
        return False
    return all(isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], Constraint) for pair in given)


def check_attributes(given: object) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"{shown(given)} are no attributes; give a dictionary of names and values")
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{shown(name)} cannot be the name of an attribute; give a string")


def check_topic(topic: str | None) -> None:
    if not isinstance(topic, str) or (not _USUAL_TOPIC(topic) and path_components(topic) is None):
        raise ValueError(f"the topic {shown(topic)} is no Dewey path; write numbers and dots, like 1.4.2")


def plain(identity: Any) -> Identity:
    """An id without NumPy's types and without subclasses."""
    kind = type(identity)
    if kind is int or kind is str or kind is bool:
        return identity  # type: ignore[no-any-return]
    if isinstance(identity, np.generic):
        identity = identity.item()
    if isinstance(identity, str):
        return str.__str__(identity)
    return int.__int__(identity) if isinstance(identity, int) and not isinstance(identity, bool) else identity
