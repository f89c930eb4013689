"""Refusals of a Get or a push: the error code in the response, and the reason for the operator."""

from typing import Final, NamedTuple

from fleetgauge.base.errors import ErrorCode


class Refusal(NamedTuple):
    """One kind of refusal.

    `gives_back`: the refused push consumes neither the client's interval nor its terminating push, because a Get or a
    smaller payload resolves the error, or because the error is on this side.
    """

    error_code: ErrorCode
    reason: str
    gives_back: bool = False


NULL_INSTANCE_ID: Final = Refusal(ErrorCode.INVALID_REQUEST, "null_client_instance_id")
AFTER_TERMINATING: Final = Refusal(ErrorCode.INVALID_REQUEST, "after_terminating_push")
GET_TOO_EARLY: Final = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "get_before_interval")
PUSH_TOO_EARLY: Final = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "push_before_interval")
OVER_QUOTA: Final = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "telemetry_quota")
TOO_MANY_BYTES: Final = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "sender_byte_rate", gives_back=True)
TOO_MANY_INSTANCES: Final = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "sender_new_instance_rate")
NOT_AUTHORIZED: Final = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "not_authorized")
NOT_LOGGED: Final = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "push_log_unavailable", gives_back=True)
UNKNOWN_SUBSCRIPTION: Final = Refusal(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "other_subscription_id", gives_back=True)
UNSUPPORTED_COMPRESSION: Final = Refusal(
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "unsupported_compression_type", gives_back=True
)
TOO_LARGE: Final = Refusal(ErrorCode.TELEMETRY_TOO_LARGE, "larger_than_max_bytes", gives_back=True)
TOO_LARGE_DECOMPRESSED: Final = Refusal(
    ErrorCode.TELEMETRY_TOO_LARGE, "larger_than_max_decompressed_bytes", gives_back=True
)
INFLATED: Final = Refusal(ErrorCode.TELEMETRY_TOO_LARGE, "inflated_beyond_max_compression_ratio", gives_back=True)
BROKEN_COMPRESSION: Final = Refusal(ErrorCode.INVALID_RECORD, "broken_compression")
MALFORMED_METRICS: Final = Refusal(ErrorCode.INVALID_RECORD, "malformed_metrics_data")

UNREADABLE: Final = frozenset({TOO_LARGE_DECOMPRESSED, INFLATED, BROKEN_COMPRESSION})
"""Payloads that cannot be decompressed; counted as `plugin-error` as in Kafka, which decompresses for its plugins."""
