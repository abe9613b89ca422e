"""What the schemes of Lo and Chiu have in common: a subscription is stored by one of its attributes, a publication is
sent to the keys of all of its own.

Beyond the paper, so that every condition is served:
- A disjunct is stored by one of the attributes that a rule can use; the subscription's id decides which. If there is
  none, the subscription goes everywhere, and every publication goes somewhere.
- `symmetric`: the publication's attributes are among the subscription's, so that the roles are exchanged: the
  subscription goes to the keys of all of its attributes. A publication that says nothing has a key of its own.
- `intersect`: the two may share no attribute. The subscription goes everywhere.
- A published condition goes to all keys of what it may mean, for each of its disjuncts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Set

from pastforward.columns.hashing import combine, text_hash
from pastforward.matching.conditions.normal_form import ALWAYS, PREVIOUS, Disjunct, Family
from pastforward.streams.routing.catalog import Attribute, Catalog
from pastforward.streams.routing.columns import Placement, Publications, Subscriptions
from pastforward.streams.routing.packed_rules import PackedRules
from pastforward.streams.routing.records import RoutedPublication, RoutedSubscription
from pastforward.streams.routing.rules import Rule
from pastforward.streams.routing.scheme import Scheme

# The key of a publication that says nothing.
_SILENCE = "\0silence"


class ContentScheme(Scheme):
    """Without a catalog no attribute is usable: subscriptions go to all partitions, a publication to one."""

    def __init__(self, partitions: int, catalog: Catalog | None) -> None:
        super().__init__(partitions)
        attributes = catalog.attributes if catalog else ()
        self.rules: dict[str, Rule] = {attribute.name: self.rule(attribute) for attribute in attributes}
        self.silence = text_hash(_SILENCE) % partitions
        self._packed = PackedRules(list(self.rules.values()), partitions, self.silence)

    @abstractmethod
    def rule(self, attribute: Attribute) -> Rule:
        """What the scheme is: how an attribute becomes a key."""

    def subscription(self, subscription: RoutedSubscription) -> tuple[int, ...]:
        number = text_hash(subscription.subscription_id)
        if not subscription.condition:
            return (number % self.partitions,)
        if subscription.semantics == "intersect":
            return self.everywhere
        found: set[int] = set()
        for index, disjunct in enumerate(subscription.condition):
            if subscription.semantics == "symmetric":
                keys = self._all(disjunct)
            else:
                keys = self._one(disjunct, combine(number, index))
            if keys is None:
                return self.everywhere
            found |= keys
        return tuple(sorted(found))

    def publication(self, publication: RoutedPublication) -> tuple[int, ...]:
        constants = {name: value for name, value in publication.attributes.items() if value is not None}
        shared: set[int] = set()
        for name, value in constants.items():
            rule = self.rules.get(name)
            partition = None if rule is None else rule.of_value(value)
            if partition is not None:
                shared.add(partition)
        found: set[int] = set()
        for disjunct in publication.condition if publication.condition is not None else ALWAYS:
            keys = set(shared)
            silent = not constants
            for name, constraint in disjunct:
                if name in constants or constraint.family is Family.NULL:
                    continue
                silent = False
                rule = self.rules.get(name)
                if rule is not None:
                    keys |= rule.of_published(constraint)
            if silent:
                keys.add(self.silence)
            elif not keys:
                keys.add(text_hash(publication.publication_id) % self.partitions)
            found |= keys
        if not found:  # a condition that never holds
            found.add(text_hash(publication.publication_id) % self.partitions)
        return tuple(sorted(found))

    def route_publications(self, publications: Publications) -> Placement:
        placement = self._packed.route(publications)
        return placement.replaced({row: self.publication(publications.row(row)) for row in publications.conditions})

    def route_subscriptions(self, subscriptions: Subscriptions) -> Placement:
        return self._packed.store(subscriptions)

    def _one(self, disjunct: Disjunct, number: int) -> Set[int] | None:
        said = dict(disjunct)
        usable = [rule for name, rule in self.rules.items() if name in said and rule.usable(said[name])]
        if not usable:
            return None
        rule = usable[number % len(usable)]
        return rule.of_constraint(said[rule.attribute.name])

    def _all(self, disjunct: Disjunct) -> Set[int] | None:
        found = {self.silence}
        for name, constraint in disjunct:
            if name.startswith(PREVIOUS) or constraint.family is Family.NULL:
                continue
            rule = self.rules.get(name)
            if rule is None or not rule.usable(constraint):
                return None
            found |= rule.of_constraint(constraint)
        return found
