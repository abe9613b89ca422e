"""The worker: one Faust app with two agents, the router and the matcher, over partitions that it owns.

There is one app for each version of the routing that the directory names: one, and while a change goes on, two.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import faust
from aiokafka import TopicPartition
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pastforward.columns.times import SECOND
from pastforward.schemas import Registry
from pastforward.schemas.codec import Format
from pastforward.settings import Settings
from pastforward.state import Budget, open_store, set_aside
from pastforward.streams.matcher.engine import Engine
from pastforward.streams.matcher.held import attributes_of
from pastforward.streams.matcher.matcher import Matcher, Sinks
from pastforward.streams.reference import EARLIER
from pastforward.streams.router.router import PublicationRouter, SubscriptionRouter
from pastforward.streams.routing import Directory
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.stage import Stage
from pastforward.streams.transport.connection import Connection
from pastforward.streams.transport.consumer import NoTables, Polls, PollScheduler, PollTransport
from pastforward.streams.worker.assignment import CHECKED, Assignment
from pastforward.streams.worker.directory import Tail, group_of
from pastforward.streams.worker.recovery import is_useless, open_whole, recover_engine, recover_routes, resume
from pastforward.streams.worker.sender import Interrupted, Sender, make_sender
from pastforward.streams.worker.throttle import Courtesy
from pastforward.streams.worker.web import serve_on
from pastforward.topics import Topics, quiet_admin, text_of, topic_ids

log = logging.getLogger("pastforward.worker")

BUFFERED_POLLS: Final = 2  # Faust counts polls here; its default of thousands would not bound memory
FETCH_BYTES: Final = 4 << 20  # of a fetch of one partition: some 20,000 records, which become one chunk
FOREVER: Final = 86_400.0  # Faust hangs for good once its poll interval is exceeded; /health watches progress
HUNG: Final = 300.0  # seconds that no chunk takes: longer than every time-out of the producers together


class WorkerApp:
    """Assembles the parts. `app` is the Faust app to run.

    `inputs`: partitions of the topics that others know. `entry`: the version of the routing that is run here.
    """

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        inputs: int,
        registry: Registry | None,
        entry: Directory,
        tail: Tail,
        metrics: Metrics,
        courtesy: Courtesy,
        listening: socket.socket | None,
    ) -> None:
        self._settings = settings
        self._topics = Topics(settings.topic_prefix, entry.version)
        self._group = group_of(settings, entry.version)
        self._connection = connection
        self._registry = registry
        self._inputs = inputs
        self._entry = entry
        self._tail = tail
        self._listening = listening
        self._scheme = entry.make()
        self._budget = Budget(settings.memory_budget)
        self._admin: AdminClient | None = None
        self.metrics = metrics
        self.app = self._make_app()
        self.assignment = Assignment(
            self.app,
            connection,
            self._sender,
            tail.refresh,
            self._stage,
            self._topic_ids,
            self._resume,
            self.metrics,
            courtesy,
        )
        self._connect()

    def _make_app(self) -> Any:
        settings = self._settings
        session = settings.session_timeout / SECOND
        app = faust.App(
            self._group,
            broker=";".join(f"kafka://{server.strip()}" for server in self._connection.bootstrap.split(",")),
            broker_credentials=self._connection.credentials(),
            ConsumerScheduler=PollScheduler,
            TableManager=NoTables,
            store="memory://",
            datadir=str(settings.data_dir / "worker" / "faust"),
            web_enabled=self._listening is not None,
            topic_disable_leader=True,
            topic_allow_declare=False,
            stream_wait_empty=False,
            stream_buffer_maxsize=BUFFERED_POLLS,
            consumer_max_fetch_size=FETCH_BYTES,
            consumer_auto_offset_reset="none",  # a position that is not in the log is an error (`streams.transport.log_ends`)
            broker_session_timeout=session,
            broker_heartbeat_interval=session / 4,
            # a rebalance waits for chunks in the works; who is dead is found out by its session
            broker_rebalance_timeout=HUNG,
            broker_max_poll_interval=FOREVER,
            worker_redirect_stdouts=False,
        )
        if self._listening is not None:
            serve_on(app, self._listening)
        app.transport = PollTransport(app.conf.broker, app)
        app.transport.inputs = (self._topics.subscriptions, self._topics.publications)
        return app

    def _connect(self) -> None:
        app, topics = self.app, self._topics
        inputs = app.topic(topics.subscriptions, topics.publications, schema=Polls(), acks=False)
        rendezvous = app.topic(topics.rendezvous, schema=Polls(), acks=False)

        async def feed(stream: Any) -> None:
            async for event in stream.events():
                await self.assignment.put(event.message.value)

        app.agent(inputs, name="router")(feed)
        app.agent(rendezvous, name="matcher")(feed)

        async def revoked(*_: Any, **__: Any) -> None:
            await self._guarded(self.assignment.release())

        async def stopping(*_: Any, **__: Any) -> None:
            await self._guarded(self.assignment.close())

        async def complete(*_: Any, **__: Any) -> None:
            await self._guarded(self.assignment.takeover())

        async def check() -> None:
            await self._guarded(self.assignment.check_topics())

        app.timer(CHECKED, traced=False)(check)
        app.on_partitions_revoked.connect(revoked, weak=False)
        app.on_rebalance_complete.connect(complete, weak=False)
        app.on_before_shutdown.connect(stopping, weak=False)

    async def _guarded(self, step: Any) -> None:
        """Faust logs and forgets what a signal handler raises; here it ends the worker."""
        try:
            await step
        except Exception as error:
            await self.assignment.failed(error)

    def _sender(self, topic_ids: Mapping[str, str]) -> Sender:
        name = f"{self._group}-{uuid.uuid4().hex}"
        return make_sender(self._settings, self._group, self._connection, name, self._topics.rendezvous, topic_ids)

    async def _topic_ids(self, names: Iterable[str]) -> dict[str, str | None]:
        """Those of the changelogs as well."""
        known = {*names, self._topics.live, self._topics.routes}
        if self._admin is None:
            self._admin = quiet_admin(self._settings, self._connection.bootstrap)
        try:
            return await asyncio.to_thread(topic_ids, self._admin, sorted(known))
        except KafkaException as error:
            raise Interrupted(f"Kafka has not told the ids of the topics: {text_of(error)}") from error

    async def _resume(self, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
        exactly_once = self._settings.delivery == "exactly-once"
        return await resume(self._connection, self._topics, self._entry.partitions, wanted, exactly_once=exactly_once)

    async def _stage(self, partition: TopicPartition, committed: int, arrived_at: int) -> Stage:
        topics, number = self._topics, partition.partition
        common = (topics, self._scheme, self._entry.version, self._tail.view, self.metrics, self._registry)
        if partition.topic == topics.publications:
            return PublicationRouter(partition, "publications", *common, arrived_at=arrived_at)
        if partition.topic == topics.subscriptions:
            routes = await recover_routes(self._connection, topics, number)
            times = {"hot_window": self._settings.hot_window, "arrived_at": arrived_at}
            return SubscriptionRouter(partition, "subscriptions", *common, routes=routes, **times)
        engine = await self._recovered(number, committed)
        notifications = cast(Format, self._settings.notification_format)
        return Matcher(engine, Sinks(topics, self._inputs, notifications, self._registry), self.metrics)

    async def _recovered(self, number: int, committed: int) -> Engine:
        """A local state that is of no use is set aside, and rebuilt from Kafka: once, as the new one has no such excuse."""
        try:
            return await self._recover(number, committed)
        except Exception as error:
            if not is_useless(error):
                raise
            place, size = set_aside(self._store_path(number))
            log.warning(
                "the state of partition %d is set aside as %s (%.1f MB; the next one replaces it) and rebuilt from Kafka: %s",
                number,
                place,
                size / 1e6,
                error,
            )
            self.metrics.dropped.labels("state").inc()
        return await self._recover(number, committed)

    async def _recover(self, number: int, committed: int) -> Engine:
        engine = self._engine(number)
        try:
            await recover_engine(self._connection, self._topics, engine, committed, self._entry)
        except BaseException:
            engine.close()
            raise
        for reason, count in engine.lost.items():
            self.metrics.dropped.labels(reason).inc(count)
        return engine

    def _engine(self, number: int) -> Engine:
        settings = self._settings
        directory = self._store_path(number)
        directory.parent.mkdir(parents=True, exist_ok=True)
        hot = settings.hot_window
        store = open_whole(
            lambda: open_store(
                directory,
                settings.layout,
                budget=self._budget,
                hot_window=hot,
                lateness=hot,
                earlier_limit=EARLIER,
                reader=attributes_of,
            ),
            self.metrics.dropped.labels("state").inc,
        )
        return Engine(
            number,
            hot,
            store,
            in_memory=settings.index == "memory",
            version=self._entry.version,
            algorithm=settings.algorithm,
        )

    def _store_path(self, number: int) -> Path:
        version = self._entry.version
        folder = "state" if version == 1 else f"state-{version}"
        return self._settings.data_dir / "worker" / folder / f"{self._settings.topic_prefix}{number}"

    async def retire(self) -> None:
        """This version is over: lets go of everything, and of what it kept on the disk."""
        await self.assignment.retire()
        for number in range(self._entry.partitions):
            shutil.rmtree(self._store_path(number), ignore_errors=True)
