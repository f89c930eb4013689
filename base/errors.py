"""Kafka's error codes and the one hierarchy of exceptions: which code an exception carries is said here alone.

Imports nothing of the project: every room may raise these. Turning an exception into a response is the work of
`fleetgauge.listener.dispatcher`.
"""

import enum


class ErrorCode(enum.IntEnum):
    """Kafka's protocol error codes that this service gives or reads (Kafka protocol guide, "Error Codes")."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    CORRUPT_MESSAGE = 2
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    SASL_AUTHENTICATION_FAILED = 58
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    UNKNOWN_TOPIC_ID = 100
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118


class FleetgaugeError(Exception):
    """Root of every exception that the project raises on purpose; its text is one sentence for an operator."""


class KafkaError(FleetgaugeError):
    """An error that has a code on the wire."""

    error_code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class InvalidConfigError(KafkaError):
    """A configuration value that Kafka refuses, for example a selector that does not exist."""

    error_code = ErrorCode.INVALID_CONFIG


class InvalidRecordError(KafkaError):
    """The payload is not what it claims to be: broken compression, or no well-formed OTLP `MetricsData`."""

    error_code = ErrorCode.INVALID_RECORD


class ThrottlingQuotaExceededError(KafkaError):
    """Too early, over a quota, or the push log cannot take it now: the client tries again at its next interval."""

    error_code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class TelemetryTooLargeError(KafkaError):
    """The payload is longer than `telemetry.max.bytes`, or decompressed than `telemetry.max.decompressed.bytes`."""

    error_code = ErrorCode.TELEMETRY_TOO_LARGE
