"""`dewey` keeps overlapping topics together, and spreads siblings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward.streams.routing import Publication, RoutingError, Subscription, make_scheme, reports

paths = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 5), max_size=4).map(tuple)


def text(path: tuple[int, ...]) -> str:
    return ".".join(map(str, path))


@given(paths, paths, st.integers(1, 20), st.integers(1, 3), st.sampled_from(["overlap", "subtree"]))
def test_topics_that_overlap_share_a_partition(path, below, partitions, depth, scope):
    scheme = make_scheme("dewey", partitions, depth=depth)
    upper, lower = text(path), text(path + below)
    pairs = [(upper, lower)] if scope == "subtree" else [(upper, lower), (lower, upper)]
    for subscribed, published in pairs:
        stored = scheme.subscription(Subscription("s", subscribed, scope=scope))
        sent = scheme.publication(Publication("p", published))
        assert set(stored) & set(sent)
        assert sum(reports(partition, stored, sent) for partition in range(partitions)) == 1


@given(paths, st.integers(1, 20), st.integers(1, 3))
def test_at_the_depth_one_partition_above_it_all(path, partitions, depth):
    found = make_scheme("dewey", partitions, depth=depth).publication(Publication("p", text(path)))
    assert len(found) == (1 if len(path) >= depth else partitions)
    assert set(found) <= set(range(partitions))


@pytest.mark.parametrize("parent", ["", "1.", "4.", "123456789."])
def test_siblings_in_sequence_fill_all_partitions(parent):
    scheme = make_scheme("dewey", 4, depth=parent.count(".") + 1)
    found = {scheme.publication(Publication("p", f"{parent}{child}"))[0] for child in (1, 2, 3, 4)}
    assert found == {0, 1, 2, 3}


@pytest.mark.parametrize("stride", [1, 2, 4, 8, 64, 1000])
def test_no_arithmetic_pattern_piles_up(stride):
    scheme = make_scheme("dewey", 8)
    counts = [0] * 8
    for number in range(4000):
        counts[scheme.publication(Publication("p", str(number * stride)))[0]] += 1
    assert max(counts) < 4000 / 8 * 1.25


def test_where_a_topic_goes_never_changes():
    """A literal: another answer after an upgrade would part subscriptions from their publications."""
    scheme = make_scheme("dewey", 16, depth=2)
    assert [scheme.publication(Publication("p", topic)) for topic in ("1.1", "1.2.7", "9.4", "123.456")] == WHERE


WHERE = [(11,), (12,), (8,), (8,)]


@pytest.mark.parametrize(("partitions", "depth"), [(0, 1), (4, 0)])
def test_refused(partitions, depth):
    with pytest.raises(RoutingError, match="write 1 or more"):
        make_scheme("dewey", partitions, depth=depth)


def test_unknown_scheme_names_the_known():
    with pytest.raises(RoutingError, match=r"'deway'.*dewey"):
        make_scheme("deway", 4)


def test_only_the_smallest_shared_partition_reports():
    assert [reports(partition, (0, 2, 5), (1, 2, 5)) for partition in range(6)] == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    assert not any(reports(partition, (0, 2), (1, 3)) for partition in range(6))
