"""Compiles the kernels, by sending a small chunk through a router and an engine. What is compiled is kept on disk."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace
from typing import Any

import numpy as np
from aiokafka import TopicPartition

from pastforward.columns.texts import Texts
from pastforward.columns.times import HOUR
from pastforward.matching import Condition
from pastforward.schemas import Publication, Subscription, encode
from pastforward.schemas import compile_kernels as compile_schemas
from pastforward.state import open_store
from pastforward.state.filtering import Tests
from pastforward.streams.matcher.engine import Engine
from pastforward.streams.matcher.filters import filter_of
from pastforward.streams.matcher.heap import Heap
from pastforward.streams.matcher.matcher import Matcher, Sinks
from pastforward.streams.router.router import PublicationRouter, SubscriptionRouter
from pastforward.streams.router.routes import Routes
from pastforward.streams.routing import make_scheme
from pastforward.streams.routing.change import State, View
from pastforward.streams.routing.warm import compile_kernels as compile_routing
from pastforward.streams.stages.metrics import Metrics
from pastforward.topics import Topics


def compile_kernels() -> None:
    compile_schemas()
    compile_routing()
    _compile_heap()
    Tests(filter_of(Condition.parse("a = 'x'").disjuncts))  # texts are hashed
    topics, scheme, metrics = Topics("warm."), make_scheme("dewey", 1, 1), Metrics()
    common = (topics, scheme, 1, View(state=State(1)), metrics, None)
    subscriptions = SubscriptionRouter(
        TopicPartition(topics.subscriptions, 0), "subscriptions", *common, routes=Routes(topics.routes, 0)
    )
    publications = PublicationRouter(TopicPartition(topics.publications, 0), "publications", *common)
    subscription = encode(Subscription("s", "me", "1", where="a > 0"))
    publication = encode(Publication(None, "you", "1.4", attributes={"a": 1}))
    # what is told of the past, what is told live, and an end
    routed = [
        publications.process([_record(i, b"p%d" % i, publication) for i in range(2)]),
        subscriptions.process([_record(0, b"s", subscription)]),
        publications.process([_record(i, b"p%d" % i, publication) for i in range(1, 3)]),
        subscriptions.process([_record(1, b"s", None)]),
    ]
    for in_memory in (True, False):
        with tempfile.TemporaryDirectory(prefix="pastforward-") as directory:
            store = open_store(directory, hot_window=HOUR, lateness=HOUR, earlier_limit=1)
            matcher = Matcher(Engine(0, HOUR, store, in_memory=in_memory), Sinks(topics, 1, "avro", None), metrics)
            offset = 0
            for each in routed:
                values = [value for _, value in each.outputs[topics.rendezvous, 0]]
                matcher.process([_record(offset + i, None, value) for i, value in enumerate(values)])
                offset += len(values)
                matcher.committed(offset)
            matcher.close()


def _compile_heap() -> None:
    """It is put together only when much of it is gone."""
    heap = Heap(2)
    heap.put(np.arange(2), Texts.of([b"a", b"b"]))
    heap.compact()


def _record(offset: int, key: bytes | None, value: bytes | None) -> Any:
    return SimpleNamespace(topic="warm", partition=0, offset=offset, timestamp=offset + 1, key=key, value=value)
