"""One connection of simulated clients to a listener or broker: ApiVersions, GetTelemetrySubscriptions, PushTelemetry.

PLAINTEXT alone. Requests of several clients may be under way on one connection, answered in their order as Kafka does.
"""

import asyncio
import io
import itertools
import os
import struct
import uuid
from collections import deque
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pyarrow as pa
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.get_telemetry_subscriptions.v0.request import GetTelemetrySubscriptionsRequest
from kio.schema.get_telemetry_subscriptions.v0.response import GetTelemetrySubscriptionsResponse
from kio.schema.push_telemetry.v0.request import PushTelemetryRequest
from kio.schema.push_telemetry.v0.response import PushTelemetryResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from fleetgauge.fleet.errors import WrongOptionError

TELEMETRY_APIS: Final = frozenset(
    int(each.__api_key__) for each in (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)
)
_MAX_ANSWER_BYTES: Final = 1 << 20
_ANSWERED_WITHIN_S: Final = 30.0
_ASKS: Final = "is it a PLAINTEXT listener?"
_CODECS: Final[dict[int, Any]] = {1: "gzip", 3: "lz4", 4: "zstd"}
"""Kafka's ids of the codecs that pyarrow writes in the form that Kafka reads."""


class LinkError(Exception):
    """The connection cannot be made, has ended, or carries something else than Kafka's protocol; why, in some words."""


class Target(NamedTuple):
    """Where a listener is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_target(text: str) -> Target:
    """`HOST:PORT`; an IPv6 address stands in brackets.

    >>> parse_target("broker-1:9092"), str(parse_target("[::1]:9092"))
    (Target(host='broker-1', port=9092), '[::1]:9092')

    Raises:
        WrongOptionError: it is in no such form.
    """
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if bare and (":" not in bare or bare != host) and port.isascii() and port.isdigit() and 0 < int(port) < 65_536:
        return Target(bare, int(port))
    raise WrongOptionError(f"--push is {text!r}: give HOST:PORT, such as 127.0.0.1:9092")


class Link:
    """A connection, which is made at once; to a peer that takes client telemetry.

    Args:
        target: where to.
        client_id: who asks for ApiVersions.
        software: name and version of the client's library, which it names there.

    Attributes:
        instances: client instances that use it.
    """

    def __init__(self, target: Target, client_id: str, software: tuple[str, str]) -> None:
        self.instances = 0
        self._numbers = itertools.count(1)
        self._waiting: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        self._fault: str | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.create_task(self._open(target, client_id, software))

    async def _open(self, target: Target, client_id: str, software: tuple[str, str]) -> None:
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                reader, self._writer = await asyncio.open_connection(*target)
        except (OSError, TimeoutError) as error:
            number, text = getattr(error, "errno", None) or 0, getattr(error, "strerror", None) or str(error)
            # Below 0 is a name that is not known; asyncio's own text is of no use to an operator.
            self._end(f"cannot be reached: {os.strerror(number) if number > 0 else text or 'no answer'}")
            return
        self._reading = asyncio.create_task(self._read(reader))
        name, version = software
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        with suppress(LinkError):  # then its fault is known
            answer: ApiVersionsResponse = await self._call(client_id, request, ApiVersionsResponse)
            if not {int(each.api_key) for each in answer.api_keys} >= TELEMETRY_APIS:
                self._end(
                    "takes no client telemetry (APIs 71 and 72): a Kafka broker needs version 3.7 or later and a "
                    "metrics reporter that receives it, such as the broker plugin"
                )

    @property
    def is_closed(self) -> bool:
        """True once nothing can be sent any more."""
        return self._fault is not None

    async def subscribe(self, client_id: str, instance_id: uuid.UUID) -> GetTelemetrySubscriptionsResponse:
        """Subscription that the peer gives to an instance."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        response: GetTelemetrySubscriptionsResponse = await self._call_when_open(
            client_id, request, GetTelemetrySubscriptionsResponse
        )
        return response

    async def push(
        self,
        client_id: str,
        instance_id: uuid.UUID,
        subscription: GetTelemetrySubscriptionsResponse,
        metrics: bytes,
        *,
        terminating: bool,
    ) -> PushTelemetryResponse:
        """Pushes, compressed by the first codec that the peer takes, as clients do."""
        codec = next((each for each in subscription.accepted_compression_types if each in _CODECS), 0)
        if codec and metrics:
            metrics = pa.compress(metrics, _CODECS[codec], asbytes=True)
        request = PushTelemetryRequest(
            client_instance_id=instance_id,
            subscription_id=subscription.subscription_id,
            terminating=terminating,
            compression_type=codec if metrics else 0,  # type: ignore[arg-type]
            metrics=metrics,
        )
        response: PushTelemetryResponse = await self._call_when_open(client_id, request, PushTelemetryResponse)
        return response

    async def _call_when_open(self, client_id: str, request: Any, answer: type[Any]) -> Any:
        await asyncio.shield(self._opening)
        return await self._call(client_id, request, answer)

    async def _call(self, client_id: str, request: Any, answer: type[Any]) -> Any:
        """Sends a request and reads its answer.

        Raises:
            LinkError: there is none.
        """
        if self._fault is not None or self._writer is None:
            raise LinkError(self._fault or "is closed")
        number = next(self._numbers) & 0x7FFFFFFF
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, future))
        self._writer.write(_framed(client_id, request, number))
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                body = await future
            position = 1 if answer.__header_schema__.__flexible__ else 0
            return entity_reader(answer)(body, position)[0]
        except TimeoutError as error:
            self._end("does not answer")
            raise LinkError("does not answer") from error
        except (SerialError, ValueError) as error:
            self._end("answers in no form of Kafka's protocol")
            raise LinkError("answers in no form of Kafka's protocol") from error

    def close(self) -> None:
        """Ends the connection."""
        self._opening.cancel()
        self._end("is closed")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Hands answers to those that wait for them, up to the end of the connection."""
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                if not 4 <= size <= _MAX_ANSWER_BYTES or not self._waiting:
                    self._end(f"answers in no form of Kafka's protocol: {_ASKS}")
                    return
                frame = await reader.readexactly(size)
                number, future = self._waiting.popleft()
                if struct.unpack_from(">i", frame) != (number,):
                    self._end("answers other requests than were sent")
                    return
                if not future.done():
                    future.set_result(frame[4:])
        except (OSError, asyncio.IncompleteReadError):
            self._end(f"ended the connection: {_ASKS}")

    def _end(self, fault: str) -> None:
        if self._fault is None:
            self._fault = fault
            if self._writer is not None:
                self._writer.close()
            if self._reading is not None:
                self._reading.cancel()
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(LinkError(self._fault))
        self._waiting.clear()


def _framed(client_id: str, request: Any, number: int) -> bytes:
    buffer = io.BytesIO()
    buffer.write(bytes(4))
    header = RequestHeader(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=number,  # type: ignore[arg-type]
        client_id=client_id,
    )
    entity_writer(RequestHeader)(buffer, header)
    entity_writer(type(request))(buffer, request)
    frame = bytearray(buffer.getvalue())
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    return bytes(frame)
