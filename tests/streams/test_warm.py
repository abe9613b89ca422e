"""What set-up compiles is all that a chunk needs: a worker's loop must not wait for a kernel."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: others have loaded kernels already.
SCENE = """
from types import SimpleNamespace
import numpy as np
from aiokafka import TopicPartition
from numba.core.dispatcher import Dispatcher
from pastforward.topics import Topics
from pastforward.columns.texts import Texts
from pastforward.schemas import NotificationColumns, Publication, encode, decode_rendezvous_chunk
from pastforward.schemas.notification_writer import NotificationWriter
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.router.router import PublicationRouter
from pastforward.streams.routing import make_scheme
from pastforward.streams.routing.change import State, View
from pastforward.streams.warm import compile_kernels

compile_kernels()

def load(kernel, *arguments, **named):
    raise AssertionError(f"{kernel.py_func.__qualname__} is not loaded at set-up")

Dispatcher._compile_for_args = load
topics = Topics("x.")
router = PublicationRouter(
    TopicPartition("x.publications", 0), "publications", topics, make_scheme("dewey", 2, 1), 1, View(state=State(1)), Metrics(), None
)
for form in ("avro", "json"):
    value = encode(Publication(None, "you", "1.4", attributes={"a": 1, "b": "x"}), form)
    records = [SimpleNamespace(offset=i, timestamp=i, key=key, value=value) for i, key in enumerate((b"p", None))]
    sent = router.process(records).outputs
    assert sum(len(records) for (topic, _), records in sent.items() if topic == topics.rendezvous) == 2
    for records in sent.values():
        decode_rendezvous_chunk([value for _, value in records])
    text, small, long = Texts.of([b"1"]), np.zeros(1, np.uint8), np.zeros(1, np.int64)
    told = NotificationColumns(text, text, text, text, text, small, text, long, long, small, {}, {})
    writer = NotificationWriter(told, form)
    Outgoing().send_framed("t", 2, told.recipient_id, writer.sizes, writer.write)
"""


def test_a_chunk_finds_its_kernels_loaded() -> None:
    ran = subprocess.run([sys.executable, "-c", SCENE], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
