"""Validation of limits: Kafka's rules, with Kafka's error messages.

The rules of a broker's keys are those of Kafka's `ConfigDef`, the rules of an entity's keys those of its controller
(`ClientQuotaControlManager`). See `quotas.config` for the names and defaults of a broker's keys.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas.metrics.metric_config import INT_MAX, UNBOUNDED
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import QuotaType

FRACTION_TOLERANCE: Final = 1e-6
"""An integral limit may exceed a whole number by this much."""


@dataclass(frozen=True, slots=True)
class EntityQuotaKey:
    """Key of one limit of an entity, e.g. `producer_byte_rate` of a user.

    Attributes:
        name: Kafka's key.
        quota_type: the limited quota; None for the rate of connections.
        default: the limit if none is set.
        maximum: the largest value allowed.
        integral: False where fractions are allowed.
    """

    name: str
    quota_type: QuotaType | None
    default: float
    maximum: float
    integral: bool


USER_AND_CLIENT_QUOTA_KEYS: Final[Mapping[str, EntityQuotaKey]] = {
    key.name: key
    for key in (
        EntityQuotaKey("producer_byte_rate", QuotaType.PRODUCE, UNBOUNDED, UNBOUNDED, integral=True),
        EntityQuotaKey("consumer_byte_rate", QuotaType.FETCH, UNBOUNDED, UNBOUNDED, integral=True),
        EntityQuotaKey("request_percentage", QuotaType.REQUEST, INT_MAX, math.inf, integral=False),
        EntityQuotaKey("controller_mutation_rate", QuotaType.CONTROLLER_MUTATION, INT_MAX, math.inf, integral=False),
    )
}
TELEMETRY_QUOTA_KEYS: Final[Mapping[str, EntityQuotaKey]] = {
    key.name: key
    for key in (
        EntityQuotaKey("telemetry_byte_rate", QuotaType.TELEMETRY_BYTE, UNBOUNDED, UNBOUNDED, integral=False),
        EntityQuotaKey("telemetry_push_rate", QuotaType.TELEMETRY_PUSH, UNBOUNDED, UNBOUNDED, integral=False),
    )
}
"""Fleetgauge's own keys, for users and client ids. A client pushes every few minutes, so that rates are fractions."""
IP_QUOTA_KEYS: Final[Mapping[str, EntityQuotaKey]] = {
    "connection_creation_rate": EntityQuotaKey("connection_creation_rate", None, INT_MAX, INT_MAX, integral=True)
}

_KEY_OF: Final = {
    key.quota_type: key.name for keys in (USER_AND_CLIENT_QUOTA_KEYS, TELEMETRY_QUOTA_KEYS) for key in keys.values()
}
_RATE_OF: Final = {
    str(QuotaType.LEADER_REPLICATION): "leader.replication.throttled.rate",
    str(QuotaType.FOLLOWER_REPLICATION): "follower.replication.throttled.rate",
    str(QuotaType.ALTER_LOG_DIRS_REPLICATION): "replica.alter.log.dirs.io.max.bytes.per.second",
}


def checked_quota_value(keys: Mapping[str, EntityQuotaKey], name: str, value: float) -> float:
    """Checks a limit of an entity by the rules of Kafka's controller; NaN, which Kafka accepts, is refused here.

    Args:
        keys: `USER_AND_CLIENT_QUOTA_KEYS` or `IP_QUOTA_KEYS`, depending on the entity.
        name: the key.
        value: the limit. Where it has to be a whole number, it may be larger than one by up to 1e-6.

    Raises:
        InvalidConfigError: the entity has no such key, or the value is not a number, not above 0, too large, or a
            fraction where a whole number is required.
    """
    check_types(keys=(keys, Mapping))
    key = keys.get(name)
    if key is None:
        raise InvalidConfigError(f"Invalid configuration key {name}; there are {', '.join(keys)}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidConfigError(f"Quota {name} must be a number, not {value!r}")
    if not value > 0:
        raise InvalidConfigError(f"Quota {name} must be greater than 0")
    if value > float(key.maximum):  # Java compares with the largest long as a double, which is 2^63
        raise InvalidConfigError(
            f"Proposed value for {name} is too large for {'an INT' if key.maximum == INT_MAX else 'a LONG'}."
        )
    if key.integral and math.fmod(value, 1.0) > FRACTION_TOLERANCE:
        raise InvalidConfigError(f"{name} cannot be a fractional value.")
    return float(value)


def checked_number(name: str, value: object, minimum: int = 0, maximum: int = INT_MAX) -> int:
    """Checks the value of a broker's integer key, which may be written as text, as Kafka parses it.

    Args:
        name: the key.
        value: the configured value.
        minimum: smallest value.
        maximum: largest value of the key's type in Kafka: `INT_MAX` for INT, `UNBOUNDED` for LONG.

    Raises:
        InvalidConfigError: it is not a whole number, or out of these bounds.
    """
    kind, bits = ("INT", 32) if maximum == INT_MAX else ("LONG", 64)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _invalid(name, value, f"Expected value to be a {bits}-bit integer, but it was a {type(value).__name__}")
    number = _parsed(value) if isinstance(value, str) else value
    if number is None or not -maximum - 1 <= number <= maximum:
        raise _invalid(name, value, f"Not a number of type {kind}")
    if number < minimum:
        raise _invalid(name, number, f"Value must be at least {minimum}")
    return number


def checked_client_quota(quota_type: QuotaType, quota: Quota) -> Quota:
    """Checks a limit of users and client ids, for the manager of that type.

    Raises:
        TypeError: it is not a `Quota`.
        InvalidConfigError: its bound is not above 0.
    """
    if not _is_quota(quota).bound > 0:
        raise InvalidConfigError(f"Quota {_KEY_OF.get(quota_type, quota_type)} must be greater than 0")
    return quota


def checked_replication_quota(quota_type: str, quota: Quota) -> Quota:
    """Checks a throttle of replication, for the manager of that type; 0 admits nothing.

    Raises:
        TypeError: it is not a `Quota`.
        InvalidConfigError: its bound is below 0.
    """
    bound = _is_quota(quota).bound
    if bound < 0:
        shown = int(bound) if bound.is_integer() else bound
        raise _invalid(_RATE_OF.get(quota_type, quota_type), shown, "Value must be at least 0")
    return quota


def _is_quota(quota: object) -> Quota:
    if not isinstance(quota, Quota):
        raise TypeError(f"a limit is a Quota, for example Quota.upper_bound(1000), or None for no limit; not {quota!r}")
    return quota


def _parsed(text: str) -> int | None:
    try:
        return None if "_" in text else int(text)
    except ValueError:
        return None


def _invalid(name: str, value: object, why: str) -> InvalidConfigError:
    return InvalidConfigError(f"Invalid value {value} for configuration {name}: {why}")
