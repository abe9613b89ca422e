"""The records on the topics, as Python objects.

Times are integers, microseconds since 1970, UTC (`columns.times` converts). None means left out: the schemas tell the
defaults. An instance is not checked when it is made; `encode` and the decoders check.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pastforward.columns.vocabulary import Deliver, Scope, Semantics, TimeBasis, Transition
from pastforward.matching.conditions.normal_form import ALWAYS, NormalForm
from pastforward.matching.conditions.values import Value

Prefer: TypeAlias = Literal["highest", "lowest"]
Role: TypeAlias = Literal["subscriber", "publisher"]
Phase: TypeAlias = Literal["past", "live", "backfill", "best"]
Origin: TypeAlias = Literal["subscriptions", "publications", "none"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """One comparison. `value` alone, `value` and `high` (between), `values` (in), or none of them (is null)."""

    attribute: str
    operator: str
    value: Value | None = None
    high: Value | None = None
    values: tuple[Value, ...] = ()


Disjuncts: TypeAlias = tuple[tuple[Predicate, ...], ...]
Where: TypeAlias = str | Disjuncts | None


@dataclass(slots=True)
class Subscription:
    subscription_id: str
    subscriber_id: str
    topic: str = ""
    scope: Scope = "overlap"
    starts_at: int | None = None
    ends_at: int | None = None
    time: TimeBasis | None = None
    where: Where = None
    semantics: Semantics = "classical"
    self_join: bool = False
    deliver: Deliver = "content"
    transitions: bool = False
    paused: bool = False


@dataclass(slots=True)
class Best:
    attribute: str
    prefer: Prefer


@dataclass(slots=True)
class Publication:
    publication_id: str | None = None
    publisher_id: str | None = None
    topic: str = ""
    published_at: int | None = None
    expires_at: int | None = None
    attributes: dict[str, Value] = field(default_factory=dict)
    where: Where = None
    best: Best | None = None
    self_join: bool = False
    body: bytes | None = None
    entity: bool = False


@dataclass(slots=True)
class EntityWithdrawal:
    """A null value on the publications topic."""

    publication_id: str


@dataclass(slots=True)
class Content:
    """What was published. `where`: the published condition as SQL text."""

    attributes: dict[str, Value] = field(default_factory=dict)
    where: str | None = None
    body: bytes | None = None
    publisher_id: str | None = None
    expires_at: int | None = None


@dataclass(slots=True)
class Notification:
    """`content` None: the subscription asks for ids alone, or a version without content has written it."""

    notification_id: str
    subscription_id: str
    subscription_version: str
    publication_id: str
    recipient_id: str
    role: Role
    topic: str
    published_at: int
    matched_at: int
    phase: Phase
    earlier_ids: tuple[str, ...] = ()
    value: Value | None = None
    content: Content | None = None
    transition: Transition | None = None
    set_version: str | None = None
    publication_version: str | None = None


@dataclass(slots=True)
class DeadLetter:
    """Make it with `dead_letter`, which keeps it below the size that its topic takes."""

    topic: str
    partition: int
    offset: int
    arrived_at: int
    kind: str
    reason: str
    key: bytes | None = None
    value: bytes | None = None


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """Of a subscription or an entity. Ordered by arrival, then partition, then offset; written as `2-1735`."""

    arrived_at: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"


@dataclass(slots=True)
class CanonicalSubscription:
    """Checked, with all defaults filled in: see `canonical_subscription`. `ends_at` None: no end. `set_version` None: its own.

    `pause`: of a paused one, as a matcher keeps it, what of each publications partition it had seen when the pause began.
    """

    subscription_id: str
    subscriber_id: str
    version: Version
    topic: str
    scope: Scope
    starts_at: int
    ends_at: int | None
    time: TimeBasis
    where: NormalForm = ALWAYS
    semantics: Semantics = "classical"
    self_join: bool = False
    deliver: Deliver = "content"
    transitions: bool = False
    paused: bool = False
    set_version: Version | None = None
    pause: dict[int, int] | None = None

    @property
    def set_began(self) -> Version:
        return self.set_version or self.version


@dataclass(slots=True)
class Withdrawal:
    """`version` is its own: it ends every version below. None as it comes from the input topic. `replaced`: a version at other partitions
    goes on with its set of entities."""

    subscription_id: str
    version: Version | None = None
    replaced: bool = False


@dataclass(slots=True)
class Entity:
    """What makes a publication a version of an entity. Its version is where it came from; in no partition of its own, it is a withdrawal.

    `before`: the partitions of the version before. `previous`: its attributes; None: this is a first one.
    """

    before: tuple[int, ...] = ()
    previous: dict[str, Value] | None = None
    digest: bytes = b""


@dataclass(slots=True)
class CanonicalPublication:
    """Checked, with all defaults filled in: see `canonical_publication`. `expires_at` None: never."""

    publication_id: str
    publisher_id: str | None
    topic: str
    published_at: int
    expires_at: int | None = None
    best: Best | None = None
    self_join: bool = False
    attributes: dict[str, Value] = field(default_factory=dict)
    where: NormalForm | None = None
    body: bytes | None = None
    entity: Entity | None = None


@dataclass(slots=True)
class Rendezvous:
    """What a router hands to the matchers. `record` None: a tick, which only moves the log time to `arrived_at`."""

    origin: Origin
    partition: int
    offset: int
    arrived_at: int
    routing_version: int
    partitions: tuple[int, ...]
    record: CanonicalSubscription | Withdrawal | CanonicalPublication | None = None


@dataclass(slots=True)
class BackfillRequest:
    """`cut`: highest offset seen, by partition of the publications topic. `covers`, `above`: see `schemas/backfill_request.avsc`."""

    subscription: CanonicalSubscription
    rendezvous_partition: int
    horizon: int
    log_time: int
    routing_version: int
    cut: dict[int, int]
    covers: tuple[CanonicalSubscription, ...] = ()
    above: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class BestOffer:
    publication_id: str
    topic: str
    subscription_id: str | None
    subscription_version: str | None
    subscriber_id: str | None
    value: Value | None
    changed_at: int
    offset: int
    final: bool = False


Record: TypeAlias = Subscription | Publication | Notification | DeadLetter | Rendezvous | BackfillRequest | BestOffer
