"""`--quota user=alice,producer_byte_rate=1048576`: entities and limits as Kafka names, checks and resolves them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.fleet.errors import FleetError
from fleetgauge.quotas.default_quota_callback import CLIENT_ID_TAG, USER_TAG, DefaultQuotaCallback
from fleetgauge.quotas.entity import (
    DEFAULT_CLIENT_ID_ENTITY,
    DEFAULT_NAME,
    DEFAULT_USER_ENTITY,
    ClientIdEntity,
    ConfigEntity,
    KafkaQuotaEntity,
    UserEntity,
    desanitize,
    sanitize,
)
from fleetgauge.quotas.limits import USER_AND_CLIENT_QUOTA_KEYS, checked_quota_value
from fleetgauge.quotas.quota_type import ClientQuotaType

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REPLAYED: Final = (PRODUCE, FETCH)
"""Keys whose usage clients report."""

_USER: Final = "user"
_CLIENT_ID: Final = "client-id"
_WHY_NOT: Final = {
    "request_percentage": "clients do not report how much of a broker's threads they use",
    "controller_mutation_rate": "clients do not report the partitions that they create and delete",
    "connection_creation_rate": "it applies to addresses, and brokers close connections instead of throttling",
}
_EXAMPLE: Final = "--quota 'user=alice,producer_byte_rate=1048576'"


class QuotaError(FleetError):
    """A `--quota` is not in a form that Kafka accepts, or cannot be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuota:
    """One limit of one entity.

    Attributes:
        entity: a user, a client id or both, by name or by default.
        key: of `REPLAYED`.
        limit: [bytes/s]; None is to be suggested.
    """

    entity: KafkaQuotaEntity
    key: str
    limit: float | None

    @property
    def name(self) -> str:
        """The entity in the form of `--quota`."""
        names = zip((_USER, _CLIENT_ID), (self.entity.user_entity, self.entity.client_id_entity), strict=True)
        return ",".join(f"{kind}={_written(part)}" for kind, part in names if part is not None)


def parse_quotas(texts: Iterable[str], *, suggests: bool = False) -> tuple[AskedQuota, ...]:
    """Parses all `--quota` options.

    >>> [quota.limit for quota in parse_quotas(["client-id=<default>,producer_byte_rate=1e6"])]
    [1000000.0]

    Args:
        texts: `user=NAME,client-id=NAME,KEY=VALUE[,KEY=VALUE]`; `<default>` is a name, and `,`, `%` and a user who is
            called `<default>` are percent-encoded.
        suggests: a key may come without its value.

    Raises:
        QuotaError: in Kafka's words, where Kafka refuses it too.
    """
    quotas = [quota for text in texts for quota in _parsed(text, suggests)]
    if not quotas:
        raise QuotaError(f"no quota to replay: add one, for example {_EXAMPLE}")
    seen: set[tuple[KafkaQuotaEntity, str]] = set()
    for quota in quotas:
        if (quota.entity, quota.key) in seen:
            raise QuotaError(f"--quota: {quota.key} of {quota.name} is given twice: give each limit once")
        seen.add((quota.entity, quota.key))
    return tuple(quotas)


def _parsed(text: str, suggests: bool) -> list[AskedQuota]:
    names: dict[str, ConfigEntity] = {}
    limits: dict[str, float | None] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if key in USER_AND_CLIENT_QUOTA_KEYS or key in _WHY_NOT:
            limits[key] = _limit(text, key, value if equals else None, suggests)
        elif key in names:
            raise _wrong(text, f"Invalid client quota entity, duplicate entity entry {key}")
        elif key in (_USER, _CLIENT_ID) and equals:
            names[key] = _entity(text, key, value)
        else:
            raise _wrong(text, _unknown(key, bool(equals)))
    if not names:
        raise _wrong(text, f"Invalid empty client quota entity: name a user or client-id, as {_EXAMPLE}")
    if not limits:
        raise _wrong(text, f"there is no limit: add {PRODUCE}=1048576 or {FETCH}=1048576")
    entity = KafkaQuotaEntity(names.get(_USER), names.get(_CLIENT_ID))
    return [AskedQuota(entity=entity, key=key, limit=limit) for key, limit in limits.items()]


def _entity(text: str, kind: str, name: str) -> ConfigEntity:
    if not name:
        raise _wrong(text, f"Empty {kind} not supported")
    if kind == _USER:
        return DEFAULT_USER_ENTITY if name == DEFAULT_NAME else UserEntity(unquote(name))
    return DEFAULT_CLIENT_ID_ENTITY if name == DEFAULT_NAME else ClientIdEntity(unquote(name))


def _limit(text: str, key: str, value: str | None, suggests: bool) -> float | None:
    if key in _WHY_NOT:
        raise _wrong(text, f"{key} cannot be replayed: {_WHY_NOT[key]}; {' and '.join(REPLAYED)} can")
    if value is None:
        if suggests:
            return None
        raise _wrong(text, f"{key} has no value: give {key}=1048576, or add --suggest for a suggestion")
    try:
        return checked_quota_value(USER_AND_CLIENT_QUOTA_KEYS, key, float(value))
    except ValueError:
        raise _wrong(text, f"{key} is a number of bytes per second, not {value!r}") from None
    except InvalidConfigError as error:
        raise _wrong(text, str(error)) from error


def _unknown(key: str, has_value: bool) -> str:
    hint = f"entities are {_USER} and {_CLIENT_ID}, keys {' and '.join(REPLAYED)}; in a name write a comma as %2C"
    if key == "ip":
        return (
            f"ip has connection_creation_rate alone, which cannot be replayed: {_WHY_NOT['connection_creation_rate']}"
        )
    if "_" in key or not has_value:
        return f"Invalid configuration key {key}: {hint}"
    return f"Unhandled client quota entity type: {key}: {hint}"


def _wrong(text: str, why: str) -> QuotaError:
    return QuotaError(f"--quota {text!r}: {why}")


def _written(part: ConfigEntity) -> str:
    """A name in the form of `--quota`."""
    if part in (DEFAULT_USER_ENTITY, DEFAULT_CLIENT_ID_ENTITY):
        return DEFAULT_NAME
    name = part.name.replace("%", "%25").replace(",", "%2C")
    return "%3Cdefault%3E" if name == DEFAULT_NAME else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharers:
    """A user, a client id or both, whose clients share a limit in Kafka.

    Attributes:
        user: their user; None where the limit is of a client id alone.
        client_id: their client id; None where the limit is of a user alone.
        quota: place of the limit's `AskedQuota` among those that were asked for.
    """

    user: str | None
    client_id: str | None
    quota: int


class Resolver:
    """Finds which of some limits applies to a client, with Kafka's own `DefaultQuotaCallback`.

    Args:
        asked: of every key.
    """

    def __init__(self, asked: Sequence[AskedQuota]) -> None:
        self._callbacks = {key: DefaultQuotaCallback() for key in REPLAYED}
        for place, quota in enumerate(asked):
            # The limit is its place: what is asked of the callback is which one matches.
            self._callbacks[quota.key].update_quota(_TYPE_OF[quota.key], quota.entity, float(place))
        self._known: dict[tuple[str, str, str], Sharers | None] = {}

    def sharers(self, key: str, user: str, client_id: str) -> Sharers | None:
        """The group that a client shares its limit with; None if no limit applies."""
        known = (key, user, client_id)
        if known not in self._known:
            self._known[known] = self._found(*known)
        return self._known[known]

    def _found(self, key: str, user: str, client_id: str) -> Sharers | None:
        callback = self._callbacks[key]
        tags = callback.metric_tags(sanitize(user), client_id)
        place = callback.quota_limit(_TYPE_OF[key], tags)
        if place is None:
            return None
        return Sharers(
            user=desanitize(tags[USER_TAG]) if tags[USER_TAG] else None,
            client_id=tags[CLIENT_ID_TAG] or None,
            quota=int(place),
        )


_TYPE_OF: Final[Mapping[str, ClientQuotaType]] = {PRODUCE: ClientQuotaType.PRODUCE, FETCH: ClientQuotaType.FETCH}
