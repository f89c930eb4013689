"""Kafka's error codes and the exceptions that carry them.

Imports nothing of the project, so that every package may raise these. `node.listener.dispatcher` turns them into
responses.
"""

import enum


class ErrorCode(enum.IntEnum):
    """Kafka's protocol error codes that this service sends or reads (Kafka protocol guide, "Error Codes")."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    SECURITY_DISABLED = 54
    SASL_AUTHENTICATION_FAILED = 58
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    UNKNOWN_TOPIC_ID = 100
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118


class FleetgaugeError(Exception):
    """Base class of the project's own exceptions; the text is one sentence for an operator."""


def import_problem(error: Exception) -> str:
    """Reason for an operator why a plugin's module cannot be imported.

    >>> import_problem(ValueError("no licence"))
    'ValueError: no licence'
    """
    if isinstance(error, ModuleNotFoundError):
        return (
            f"there is no module {error.name}; install it, or set PYTHONPATH to its directory (the working directory "
            "is not searched)"
        )
    return f"{type(error).__name__}: {error}"


class KafkaError(FleetgaugeError):
    """An error with a code in Kafka's protocol."""

    error_code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class InvalidConfigError(KafkaError):
    """A configuration value that Kafka refuses, for example an unknown selector."""

    error_code = ErrorCode.INVALID_CONFIG


class InvalidRequestError(InvalidConfigError):
    """A configuration that Kafka refuses as an invalid request, for example an unknown key."""

    error_code = ErrorCode.INVALID_REQUEST


class PolicyViolationError(KafkaError):
    """A valid change that this node does not allow."""

    error_code = ErrorCode.POLICY_VIOLATION


class InvalidRecordError(KafkaError):
    """The payload is corrupt: broken compression, or not a well-formed OTLP `MetricsData`."""

    error_code = ErrorCode.INVALID_RECORD


class ThrottlingQuotaExceededError(KafkaError):
    """Too early, over a quota, or the push log is unavailable: the client retries at its next interval."""

    error_code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class TelemetryTooLargeError(KafkaError):
    """The payload exceeds `telemetry.max.bytes`, or decompressed `telemetry.max.decompressed.bytes`."""

    error_code = ErrorCode.TELEMETRY_TOO_LARGE


class DataDirectoryError(FleetgaugeError):
    """A file of the data directory cannot be read or written: disk full, no permission, or it was removed."""


class ConfigError(FleetgaugeError):
    """A configuration that cannot be used.

    Attributes:
        key: the key in Kafka's dotted form, e.g. `telemetry.max.bytes`; empty for an error of the whole file.
        problem: what is wrong with it and what is allowed.
        source: origin of the value, e.g. `fleetgauge.toml`, `FLEETGAUGE_NODE_ID`, `--override`; empty where that is not
            known.
    """

    def __init__(self, key: str, problem: str, *, source: str = "") -> None:
        super().__init__(key, problem, source)
        self.key = key
        self.problem = problem
        self.source = source

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.key}{where}: {self.problem}" if self.key else f"{self.problem}{where}"
