"""What a routing scheme needs to know of a record.

Any object with these fields will do; the two classes are for those who have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pastforward.columns.vocabulary import Scope, Semantics
from pastforward.matching.conditions.normal_form import ALWAYS, NormalForm
from pastforward.matching.conditions.values import Value


class RoutedSubscription(Protocol):
    """The fields of a checked subscription that decide where it goes."""

    @property
    def subscription_id(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def condition(self) -> NormalForm: ...
    @property
    def semantics(self) -> str: ...
    @property
    def self_join(self) -> bool: ...


class RoutedPublication(Protocol):
    """The fields of a checked publication that decide where it goes; `condition` is the one it publishes, if any."""

    @property
    def publication_id(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, Value]: ...
    @property
    def condition(self) -> NormalForm | None: ...


@dataclass(frozen=True, slots=True)
class Subscription:
    subscription_id: str
    topic: str = ""
    scope: Scope = "overlap"
    condition: NormalForm = ALWAYS
    semantics: Semantics = "classical"
    self_join: bool = False


@dataclass(frozen=True, slots=True)
class Publication:
    publication_id: str
    topic: str = ""
    attributes: Mapping[str, Value] = field(default_factory=dict)
    condition: NormalForm | None = None
