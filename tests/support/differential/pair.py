"""A real Apache Kafka broker and a real `fleetgauge serve` with the same subscriptions, and connections to both."""

import asyncio
import struct
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from support.brokers.kafka_broker import KafkaBroker
from support.brokers.kafka_jars import bridge_jar
from support.clients.raw_client import (
    API_VERSIONS,
    PushAnswer,
    RawClient,
    Subscription,
    framed,
    get_request,
    header,
    parse_get,
    parse_push,
    push_request,
    uvarint,
)
from support.programs.node import Node
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.telemetry.subscriptions.subscription_id import java_uuid_hash

KAFKA_VERSION = "4.3.1"
SIDES = ("kafka", "ours")
_TOOLS_AT_ONCE = 3
_REPORTER = "io.github.fleetgauge.bridge.FleetgaugeExporterReporter"


@dataclass(frozen=True, kw_only=True)
class Group:
    """The clients of one subscription: those whose client id begins with the group's name."""

    name: str
    metrics: str = "*"
    interval_ms: int = 3000
    software: str = "raw-client"
    subscribed: bool = True

    @property
    def properties(self) -> dict[str, str]:
        return {"metrics": self.metrics, "interval.ms": str(self.interval_ms), "match": f"client_id={self.name}-.*"}

    @property
    def waits(self) -> bool:
        """True if its traces can wait for an interval."""
        return self.interval_ms < 10_000


@dataclass(frozen=True, kw_only=True)
class Content:
    """What an answered Get says, but for the client's own part."""

    checksum: int
    accepted_compression_types: tuple[int, ...]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: tuple[str, ...]

    @classmethod
    def of(cls, answer: Subscription) -> Self:
        """What `answer` says."""
        return cls(
            checksum=(answer.subscription_id ^ java_uuid_hash(answer.client_instance_id)) & 0xFFFFFFFF,
            accepted_compression_types=tuple(answer.accepted_compression_types),
            push_interval_ms=answer.push_interval_ms,
            telemetry_max_bytes=answer.telemetry_max_bytes,
            delta_temporality=answer.delta_temporality,
            requested_metrics=tuple(answer.requested_metrics),
        )

    def subscription_id(self, instance_id: uuid.UUID) -> int:
        """The subscription id [signed int32] of a client that is answered this."""
        value = self.checksum ^ java_uuid_hash(instance_id)
        return value - (1 << 32) if value >= 1 << 31 else value


Contents = dict[str, Content]
"""By side."""

GROUPS = (
    Group(name="quick", interval_ms=3000),
    Group(name="prefix", metrics="org.apache.kafka.producer.", interval_ms=3600),
    Group(name="several", metrics="b.second,a.first,c.third", interval_ms=4200),
    Group(name="kgo", software="kgo"),
    Group(name="hour", interval_ms=3_600_000),
    Group(name="unmatched", interval_ms=300_000, subscribed=False),
    # Edited while their traces run; nothing in these waits for an interval.
    Group(name="edited", interval_ms=200_000),
    Group(name="bystander", interval_ms=200_000),
)


class Pair:
    """Both brokers with the same subscriptions.

    Attributes:
        contents: what each side answers a new client of a group now, by the group's name.
    """

    def __init__(self, directory: Path) -> None:
        (directory / "node").mkdir()
        properties = {"metric.reporters": _REPORTER, "socket.listen.backlog.size": "1000"}
        self.broker = KafkaBroker(directory / "kafka", KAFKA_VERSION, jars=[bridge_jar()], properties=properties)
        self.subscriptions = {group.name: group.properties for group in GROUPS if group.subscribed}
        self.node = Node(directory / "node", config=self._toml())
        self.contents: dict[str, Contents] = {}

    def __enter__(self) -> Self:
        try:
            self.broker.start()
            self.node.start()
            with ThreadPoolExecutor(_TOOLS_AT_ONCE) as pool:
                list(pool.map(self._alter, self.subscriptions, self.subscriptions.values()))
            for group in GROUPS:
                self._wait_until_in_force(group)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.broker.kill()
        self.node.kill()

    @property
    def ports(self) -> dict[str, int]:
        return {"kafka": self.broker.port, "ours": self.node.port}

    def edit(self, group: Group, **properties: str) -> Contents:
        """Changes a subscription on both, and waits until both hand out the new one; returns that."""
        before = self.contents[group.name]
        self.subscriptions[group.name] |= properties
        self._alter(group.name, self.subscriptions[group.name])
        self.node.reread(self._toml())
        return self._wait_until_in_force(group, before)

    def _wait_until_in_force(self, group: Group, before: Contents | None = None) -> Contents:
        """Asks both as new clients until neither answers what was before the change."""

        def is_in_force(now: Contents) -> bool:
            stale = [side for side in SIDES if (before and now[side] == before[side])]
            unsubscribed = [side for side in SIDES if group.subscribed and not now[side].requested_metrics]
            return not stale and not unsubscribed

        self.contents[group.name] = wait_for(
            lambda: {side: Content.of(self.asked(side, group)) for side in SIDES},
            f"the subscription {group.name} at both",
            until=is_in_force,
        )
        return self.contents[group.name]

    def asked(self, side: str, group: Group) -> Subscription:
        """What a new client of the group is answered."""
        with RawClient(self.ports[side], client_id=f"{group.name}-probe", timeout_s=PATIENCE_S) as client:
            client.api_versions(name=group.software)
            return client.get(uuid.uuid4())

    def _alter(self, name: str, properties: Mapping[str, str]) -> None:
        self.broker.tool(
            *("org.apache.kafka.tools.ClientMetricsCommand", "--bootstrap-server", self.broker.bootstrap, "--alter"),
            *("--name", name, "--metrics", properties["metrics"], "--interval", properties["interval.ms"]),
            *("--match", properties["match"]),
        )

    def _toml(self) -> str:
        lines = []
        for name, properties in self.subscriptions.items():
            lines.append(f"[client-metrics.{name}]")
            lines += [f"{key} = '{value}'" for key, value in properties.items()]
        return "\n".join(lines) + "\n"


class Wire:
    """One asynchronous connection to one side. Every answer comes with the times around it [s, monotonic]."""

    def __init__(self, port: int, client_id: str, software: str) -> None:
        self._port = port
        self._client_id = client_id
        self._software = software
        self._correlation_ids = count(1)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Connects and says what software it is, as every client does."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        names = b"".join(uvarint(len(text) + 1) + text.encode() for text in (self._software, "1.0"))
        correlation_id = next(self._correlation_ids)
        request = framed(header(API_VERSIONS, 3, correlation_id, self._client_id) + names + b"\0")
        frame = await self._answer(request, correlation_id)
        assert frame[:2] == b"\0\0", "ApiVersions was refused"

    async def get(self, instance_id: uuid.UUID | None) -> Subscription:
        correlation_id = next(self._correlation_ids)
        frame = await self._answer(get_request(correlation_id, instance_id, self._client_id), correlation_id)
        return parse_get(frame[1:])

    async def push(
        self,
        instance_id: uuid.UUID,
        subscription_id: int,
        metrics: bytes | None,
        *,
        compression_type: int,
        terminating: bool,
    ) -> PushAnswer:
        correlation_id = next(self._correlation_ids)
        request = push_request(
            *(correlation_id, instance_id, subscription_id, metrics),
            compression_type=compression_type,
            terminating=terminating,
            client_id=self._client_id,
        )
        return parse_push((await self._answer(request, correlation_id))[1:])

    async def close(self) -> None:
        """Says that it sends no more, and waits until the other side has closed, too."""
        assert self._reader is not None
        assert self._writer is not None
        self._writer.write_eof()
        async with asyncio.timeout(PATIENCE_S):
            assert await self._reader.read() == b""
        self.abort()

    def abort(self) -> None:
        """Closes the socket at once."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def _answer(self, request: bytes, correlation_id: int) -> bytes:
        """The response from after its correlation id; raises ConnectionError when the connection ends instead."""
        assert self._reader is not None
        assert self._writer is not None
        self._writer.write(request)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._writer.drain()
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                frame = await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the connection ended") from error
        assert frame[:4] == struct.pack(">i", correlation_id)
        return frame[4:]
