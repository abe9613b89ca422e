"""From attributes of publications, their places and times to a batch, by one kernel: small chunks would pay for every step in Python."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.arrow import texts_of
from pastforward.columns.attributes import BOX, CIRCLE, POINT, STRING, Attributes
from pastforward.columns.kernel import kernel
from pastforward.columns.scalars import Int
from pastforward.columns.texts import Texts
from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.matching.index.batch import NEVER_EXPIRES, NO_TIME, FlatBatch, put_value, writable
from pastforward.matching.index.checking import batch_at, known_at
from pastforward.matching.index.places import AXES
from pastforward.matching.index.topics import check_topic, find_topic

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_NO_TIMES: Final = np.empty(0, np.int64)
_NO_TEXTS: Final = Texts(np.zeros(1, np.uint8), _NO_TIMES, np.empty(0, np.int32))


class Placed(NamedTuple):
    """Where publications are, and when. None: at the root, at no time."""

    topics: Texts = _NO_TEXTS
    published_at: I64 = _NO_TIMES
    expires_at: I64 = _NO_TIMES

    @classmethod
    def of(cls, topics: pa.Array | Texts | None, published_at: I64 | None, expires_at: I64 | None) -> Placed:
        if topics is None:
            texts = _NO_TEXTS
        else:
            texts = topics if isinstance(topics, Texts) else texts_of(topics.cast(pa.large_string()))
        return cls(texts, _times(published_at), _times(expires_at))


def _times(given: I64 | None) -> I64:
    times: I64 = _NO_TIMES if given is None else writable(given, np.int64)
    return times


@kernel
def _fill(batch: Int, known: Int, entries: Any, names: Any, topics: Any, times: Any) -> Int:
    """Returns the first row whose topic is no Dewey path, or -1. `entries`: start, name, tag, bits, length; `names`: numbers of names, and
    whether each is counted; `times`: published_at and expires_at, or empty."""
    start, name, tag, bits, length = entries
    number, counted = names
    topic_heap, topic_at, topic_length = topics
    published_at, expires_at = times
    out = batch_at(batch)
    view = known_at(known)
    strings = view.strings
    heap = out.heap
    at = 0
    out.start[0] = 0
    for row in range(len(start) - 1):
        out.vague[row] = 0
        out.publication[row] = row
        out.published_at[row] = published_at[row] if len(published_at) else NO_TIME
        out.expires_at[row] = expires_at[row] if len(expires_at) else NEVER_EXPIRES
        out.topic[row] = 0
        out.exact[row] = 1
        if len(topic_at):
            size = max(topic_length[row], 0)  # none: the root
            if not check_topic(topic_heap, topic_at[row], size):
                return row
            node, itself = find_topic(view.topics, topic_heap, topic_at[row], size)
            out.topic[row] = node
            out.exact[row] = itself
        carried = 0
        for e in range(start[row], start[row + 1]):
            carried += counted[name[e]]
            attribute = number[name[e]]
            if attribute < 0:
                continue
            value = tag[e], bits[e], bits[e] if tag[e] >= STRING else 0, length[e]
            at = put_value(out, at, attribute, value, heap, strings, view.axes)
        out.start[row + 1] = at
        out.carried[row] = carried
    return -1


def filled(attributes: Attributes, numbers: dict[str, int], known: int, placed: Placed, axes: bool) -> FlatBatch:
    """`numbers`: of the attributes that subscriptions name. `known`: the address of what the kernels know of subscriptions. `axes`: of
    some of them the places are asked about."""
    names: list[Any] = attributes.names
    number = np.array([numbers.get(name, -1) for name in names], np.int32)
    counted = np.array([not name.startswith(PREVIOUS) for name in names], np.uint8)
    entries = len(attributes.name)
    if axes:
        entries += AXES * int(np.isin(attributes.tag, (POINT, CIRCLE, BOX)).sum())
    out = FlatBatch(len(attributes), entries, writable(attributes.heap, np.uint8))
    topics = placed.topics
    wrong = _fill(
        out.address,
        known,
        (
            writable(attributes.start, np.int64),
            writable(attributes.name, np.int32),
            writable(attributes.tag, np.uint8),
            writable(attributes.bits, np.int64),
            writable(attributes.length, np.int32),
        ),
        (number, counted),
        topics.for_kernel(),
        (placed.published_at, placed.expires_at),
    )
    if wrong >= 0:
        text = topics.heap[topics.at[wrong] : topics.at[wrong] + topics.length[wrong]].tobytes().decode()
        raise ValueError(f"row {wrong}: the topic {text!r} is no Dewey path; write numbers and dots, like 1.4.2")
    return out
