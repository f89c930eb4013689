"""The two requests as values: what is read of a push, what a Get is answered. Knows no wire format."""

import uuid
from dataclasses import dataclass
from typing import Protocol

from base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsResult:
    """The answer to GetTelemetrySubscriptions (KIP-714, GetTelemetrySubscriptionsResponseV0).

    With an error only the instance id is filled in, which every answer echoes: the Java client throws on a zero id.
    `throttle_time_ms` is 0 whatever the error, since some clients would stall the connection.
    """

    error_code: ErrorCode
    client_instance_id: uuid.UUID
    throttle_time_ms: int = 0
    subscription_id: int = 0
    accepted_compression_types: tuple[int, ...] = ()
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: tuple[str, ...] = ()


class PushRequest(Protocol):
    """What is read of a PushTelemetry request; `kio`'s message is one."""

    @property
    def client_instance_id(self) -> uuid.UUID | None:
        """None, or an id that is 0, is the wire's null."""
        ...

    @property
    def subscription_id(self) -> int:
        """Signed int32."""
        ...

    @property
    def terminating(self) -> bool:
        """The client is closing."""
        ...

    @property
    def compression_type(self) -> int:
        """Kafka's number."""
        ...

    @property
    def metrics(self) -> bytes | None:
        """The payload; librdkafka before 2.10.1 can send NULL, which is a heartbeat."""
        ...
