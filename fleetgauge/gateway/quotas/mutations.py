"""Requests that create and delete partitions, as counted by the quota of partition mutations (KIP-599)."""

import dataclasses
import datetime
import io
import typing
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from fleetgauge.base.varint import encode_varint, read_uvarint
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.messages.layout import Layout, request_layout, response_layout
from fleetgauge.quotas.controller_mutation import (
    CREATE_PARTITIONS_STRICT_SINCE_VERSION,
    CREATE_TOPICS_STRICT_SINCE_VERSION,
    DELETE_TOPICS_STRICT_SINCE_VERSION,
)
from fleetgauge.wire.messages.codec import encode_response
from fleetgauge.wire.messages.request_reader import read_body

CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
CREATE_PARTITIONS: Final = 37

STRICT_SINCE: Final = {
    CREATE_TOPICS: CREATE_TOPICS_STRICT_SINCE_VERSION,
    DELETE_TOPICS: DELETE_TOPICS_STRICT_SINCE_VERSION,
    CREATE_PARTITIONS: CREATE_PARTITIONS_STRICT_SINCE_VERSION,
}
"""First version, by API key, whose clients know THROTTLING_QUOTA_EXCEEDED."""

QUOTA_EXCEEDED: Final = "The throttling quota has been exceeded."
"""Kafka's message of THROTTLING_QUOTA_EXCEEDED."""

PartitionsOf = Callable[[str], int | None]
"""The number of a topic's partitions, by its name, or by its id in 32 hexadecimal digits; None if it is not known."""


class Mutation(NamedTuple):
    """The part of a request that concerns one topic.

    Attributes:
        topic: `kio`'s object, or the name.
        partitions: created or deleted; 1 where their number is not known.
    """

    topic: Any
    partitions: int


class MutationRequest:
    """A CreateTopics, DeleteTopics or CreatePartitions request.

    Args:
        request: its header.
        body: the whole.
        partitions_of: of existing topics.

    Attributes:
        mutations: one per topic, in the order of the request.

    Raises:
        ProtocolError: the body does not follow its schema.
        LookupError: its version is not known.
    """

    def __init__(self, request: InFlight, body: bytes, partitions_of: PartitionsOf) -> None:
        layout = request_layout(request.api_key, request.api_version)
        answer = response_layout(request.api_key, request.api_version)
        if layout is None or answer is None:
            raise LookupError(f"version {request.api_version} of api key {request.api_key} is not known")
        self._request = request
        self._answer: Layout = answer
        self._message = read_body(layout.schema, body, 0)
        self._field = "topic_names" if layout.has("topic_names") else "topics"
        count = _COUNTS[request.api_key]
        self.mutations = [
            Mutation(topic, max(count(topic, partitions_of), 0)) for topic in getattr(self._message, self._field)
        ]

    def body_of(self, mutations: Sequence[Mutation]) -> bytes:
        """The request's body with these topics only."""
        topics = tuple(each.topic for each in mutations)
        return _written(dataclasses.replace(self._message, **{self._field: topics}))

    def refusal(self, throttle_time_ms: int) -> bytes:
        """The response that refuses every topic, as a whole frame.

        Args:
            throttle_time_ms: when to try again [ms].
        """
        schema, field = self._answer.schema, self._results.name
        results = tuple(map(self._refused, self.mutations))
        response = schema(throttle_time=datetime.timedelta(milliseconds=throttle_time_ms), **{field: results})
        return encode_response(self._request.correlation_id, response)

    def with_refused(self, body: bytes, refused: Sequence[Mutation]) -> bytes:
        """The broker's response with results of the withheld topics added before its own.

        Args:
            body: of the answer, or its beginning; of a strict version, which all have a throttle time and then a
                compact array of results.
            refused: topics.
        """
        count, end = read_uvarint(body, _RESULTS_AT)
        own = b"".join(_written(self._refused(each)) for each in refused)
        return body[:_RESULTS_AT] + encode_varint(count + len(refused)) + own + body[end:]

    @property
    def _results(self) -> "dataclasses.Field[Any]":
        """The array of results: the field after the throttle time."""
        return dataclasses.fields(self._answer.schema)[1]

    def _refused(self, mutation: Mutation) -> Any:
        """`kio`'s result of one topic, with every field that this version has."""
        result = typing.get_args(self._results.type)[0]
        topic = mutation.topic
        values: dict[str, Any] = {
            "name": topic if isinstance(topic, str) else topic.name,
            "topic_id": getattr(topic, "topic_id", None),
            "error_code": ErrorCode.throttling_quota_exceeded,
            "error_message": QUOTA_EXCEEDED,
            "configs": (),
        }
        return result(**{name: value for name, value in values.items() if name in result.__dataclass_fields__})


_RESULTS_AT: Final = 4
"""Offset of the results, after the throttle time [B]."""


def _created(topic: Any, partitions_of: PartitionsOf) -> int:
    """Number of created partitions; -1 in the request means the broker's `num.partitions`, which is unknown here."""
    if topic.assignments:
        return len(topic.assignments)
    return max(int(topic.num_partitions), 1)


def _deleted(topic: Any, partitions_of: PartitionsOf) -> int:
    known = partitions_of(_name(topic))
    return 1 if known is None else known


def _added(topic: Any, partitions_of: PartitionsOf) -> int:
    if topic.assignments:
        return len(topic.assignments)
    known = partitions_of(topic.name)
    return 1 if known is None else int(topic.count) - known


_COUNTS: Final[dict[int, Callable[[Any, PartitionsOf], int]]] = {
    CREATE_TOPICS: _created,
    DELETE_TOPICS: _deleted,
    CREATE_PARTITIONS: _added,
}


def _name(topic: Any) -> str:
    if isinstance(topic, str):
        return topic
    name: str | None = topic.name
    if name is not None:
        return name
    topic_id: UUID | None = topic.topic_id
    return "" if topic_id is None else topic_id.hex


def _written(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()
