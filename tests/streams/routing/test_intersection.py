"""The intersection rule: what matches shares a partition, for every scheme, every condition and all semantics."""

from collections.abc import Mapping

from hypothesis import event, given, settings
from hypothesis import strategies as st

from pastforward.matching.conditions import oracle
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.streams.routing import (
    SCHEMES,
    Publication,
    Publications,
    Scheme,
    Subscription,
    Subscriptions,
    make_scheme,
    reports,
)
from tests.streams.routing.records import CATALOG, DIVISIONS, pairs, publications, subscriptions


def matches(subscription: Subscription, publication: Publication, topics: bool = True) -> bool:
    """Content schemes do not look at topics, so that leaving them out makes more pairs."""
    return oracle.matches(
        oracle.Subscription(
            disjuncts=subscription.condition,
            topic=subscription.topic if topics else "",
            scope=subscription.scope,
            semantics=subscription.semantics,
        ),
        oracle.Publication(
            attributes=publication.attributes,
            where=ALWAYS if publication.condition is None else publication.condition,
            topic=publication.topic if topics else "",
        ),
    )


def check(scheme: Scheme, subscription: Subscription, publication: Publication) -> None:
    check_placed(scheme, subscription, publication, scheme.subscription(subscription), scheme.publication(publication))


def check_placed(
    scheme: Scheme,
    subscription: Subscription,
    publication: Publication,
    stored: tuple[int, ...],
    sent: tuple[int, ...],
) -> None:
    for found in (stored, sent):
        assert found, scheme.name
        assert list(found) == sorted(set(found)), scheme.name
        assert set(found) <= set(range(scheme.partitions)), scheme.name
    if matches(subscription, publication, topics=scheme.keeps_topics_together):
        assert set(stored) & set(sent), scheme.name
        assert sum(reports(partition, stored, sent) for partition in scheme.everywhere) == 1


KEYED = [name for name in SCHEMES if name != "constraints"]
ALL = [make_scheme(name, count, depth=2, catalog=CATALOG) for name in KEYED for count in (1, 4, 64)]
ALL += [make_scheme(name, 4) for name in SCHEMES]
ALL += [make_scheme("constraints", len(catalog.partitions), catalog=catalog) for catalog in DIVISIONS]


@settings(max_examples=50, deadline=None)
@given(st.lists(subscriptions(), min_size=1, max_size=8), st.lists(publications(), min_size=1, max_size=8))
def test_what_matches_shares_a_partition(wanted, offered):
    for subscription in wanted:
        for publication in offered:
            for scheme in ALL:
                check(scheme, subscription, publication)


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_a_publication_made_for_a_subscription_meets_it(pair):
    subscription, publication = pair
    event(f"{subscription.semantics}: {'match' if matches(*pair, topics=False) else 'none'}")
    for scheme in ALL:
        check(scheme, subscription, publication)


@settings(max_examples=50, deadline=None)
@given(st.lists(pairs(), min_size=1, max_size=8))
def test_what_matches_shares_a_partition_in_chunks(made):
    """Each subscription against each publication, those made for one another among them."""
    wanted = [subscription for subscription, _ in made]
    offered = [
        Publication(each.publication_id, each.topic, storable(each.attributes), each.condition) for _, each in made
    ]
    stored_chunk, sent_chunk = Subscriptions.of(wanted), Publications.of(offered)
    for scheme in ALL:
        stored, sent = scheme.route_subscriptions(stored_chunk), scheme.route_publications(sent_chunk)
        for i, subscription in enumerate(wanted):
            for j, publication in enumerate(offered):
                check_placed(scheme, subscription, publication, stored.row(i), sent.row(j))


def storable(attributes: Mapping[str, object]) -> dict[str, object]:
    """No record can carry an integer beyond 64 bits."""
    return {name: value for name, value in attributes.items() if value != 2**70}


def test_without_a_catalog_subscriptions_go_everywhere_and_publications_to_one():
    subscription = Subscription("s", condition=Condition.parse("kind = 'a'").disjuncts)
    for name in [name for name in SCHEMES if name != "dewey"]:
        scheme = make_scheme(name, 7)
        assert scheme.subscription(subscription) == tuple(range(7))
        assert len(scheme.publication(Publication("p", attributes={"kind": "a"}))) == 1
