"""Fields of a PushTelemetry request, and the result of GetTelemetrySubscriptions, without the wire format."""

import uuid
from dataclasses import dataclass
from typing import Protocol

from fleetgauge.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsResult:
    """Result of GetTelemetrySubscriptions (KIP-714, GetTelemetrySubscriptionsResponseV0).

    With an error only the instance id is set, which every response echoes: the Java client throws on a zero id.
    `throttle_time_ms` is 0 whatever the error, since some clients would stall the connection otherwise; a listener
    writes that of a request quota into the response.
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
    """The fields of a PushTelemetry request; `kio`'s message implements it."""

    @property
    def client_instance_id(self) -> uuid.UUID | None:
        """None or the zero id: null on the wire."""

    @property
    def subscription_id(self) -> int:
        """Signed int32."""

    @property
    def terminating(self) -> bool:
        """True if the client is closing."""

    @property
    def compression_type(self) -> int:
        """Number of the compression type."""

    @property
    def metrics(self) -> bytes | None:
        """The payload; librdkafka before 2.10.1 can send null, which counts as a heartbeat."""
