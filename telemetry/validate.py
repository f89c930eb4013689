"""Is a payload well-formed OTLP? One bad client must not spoil a batch that others share."""

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from wire.errors import InvalidRecordError


def validate_metrics(metrics: bytes) -> None:
    """Checks that `metrics` parses as an OTLP `MetricsData`: lengths, wire types, UTF-8 and depth of nesting.

    An empty payload is a heartbeat and well-formed. Fields that this version of OTLP does not know are allowed, as
    protobuf has it.

    Raises:
        InvalidRecordError: it does not parse (KIP-714, Error handling).
    """
    try:
        MetricsData.FromString(metrics)
    except DecodeError as error:
        raise InvalidRecordError(f"the payload is no OTLP MetricsData: {error}") from None
