"""Metrics that a client's software can send of those in a subscription, their cost, and the known faults that it
triggers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.telemetry.catalogue.dialects import library_of
from fleetgauge.telemetry.catalogue.software_version import parse_version, version_of_part
from fleetgauge.telemetry.catalogue.standard_metrics import ROLES, is_known_prefix, selected
from fleetgauge.telemetry.subscriptions.client_guard import GuardRule
from fleetgauge.telemetry.subscriptions.known_clients import SHIPPED

_FIRST_WITH_TELEMETRY: Final = MappingProxyType({"java": "3.7.0", "librdkafka": "2.5.0", "franz-go": "1.19.0"})
"""First version with KIP-714, by library."""

_FIXED_BYTES: Final = 140.0
_TYPICAL_BYTES: Final = MappingProxyType({"java": 23.0, "librdkafka": 35.0, "franz-go": 35.0})
_TYPICAL_BYTES_OF_OTHERS: Final = 35.0
"""Bytes of a push, and of each metric in it, where the size of none is known. Recorded ones (tests/fuzz/recorded) take,
by zstd, 2,119 B for 87 metrics of a Java producer, and 204, 462 and 617 B for 2, 10 and 13 metrics of librdkafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Clients that cannot supply what a subscription asks for.

    Attributes:
        software: name and version.
        why: one sentence.
        clients: the matching clients of this software.
    """

    software: str
    why: str
    clients: tuple[Client, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """Clients with a known fault that a subscription meets (the rules of the client guard).

    Attributes:
        rule: of the client guard.
        software: name and version.
        reason, source: one sentence, and the link to its report.
        clients: those concerned.
    """

    rule: str
    software: str
    reason: str
    source: str
    clients: tuple[Client, ...]


def why_not(client: Client, metrics: Iterable[str]) -> str | None:
    """Why a client cannot send something under each of these prefixes; None if it can, as far as is known.

    Prefixes under which no known client has a metric count as an application's own, which Java clients and franz-go
    can register.

    >>> client = Client(instance_id="", client_id="", software_name="apache-kafka-java", software_version="3.6.1")
    >>> why_not(client, ["*"])
    'telemetry (KIP-714) came with java 3.7.0'
    """
    library = library_of(client.software_name, client.software_version)
    if library is None:
        return "the metrics of this software are unknown"
    version = parse_version(_library_version(client))
    first = parse_version(_FIRST_WITH_TELEMETRY[library])
    if version is not None and first is not None and version.segments < first.segments:
        return f"telemetry (KIP-714) needs {library} {_FIRST_WITH_TELEMETRY[library]} or later"
    missing = [each for each in metrics if _has_none(library, each)]
    return f"{library} has no metric under {', '.join(missing)}" if missing else None


def _has_none(library: str, prefix: str) -> bool:
    if not is_known_prefix(prefix):
        return library == "librdkafka"
    return metric_count(library, None, (prefix,)) == 0


def _library_version(client: Client) -> str:
    return version_of_part(client.software_version, "rdkafka") or client.software_version


@cache
def metric_count(library: str | None, role: str | None, metrics: tuple[str, ...]) -> int:
    """Metrics of the catalogue that a client of this library sends for these prefixes.

    Without a role, those of a producer or of a consumer, whichever are more; if there are none, of any role. Of an
    unknown library, Java's.
    """
    own = [each for each in selected(metrics) if (library or "java") in each.clients]
    for roles in ((role,),) if role is not None else (("producer", "consumer"), ROLES):
        if count := max(sum(each_role in each.roles for each in own) for each_role in roles):
            return count
    return 0


def hazards_of(client: Client, before: tuple[str, ...], after: tuple[str, ...]) -> list[GuardRule]:
    """The known faults that a client may meet when it is asked for `after` in place of `before`.

    What concerns codecs alone is met by a client's first push: not by a change of what it pushes already.
    """
    return [
        rule
        for rule in SHIPPED
        if rule.concerns(client.software_name, client.software_version)
        and rule.acts_on(after)
        and not (rule.acts_on(before) and rule.compression_types is not None)
    ]


@dataclass(slots=True)
class _Sums:
    """Sums over pushes: their size, their number, and the metrics in them."""

    total: float = 0.0
    pushes: int = 0
    metrics: int = 0


class Measured:
    """Bytes and points of a push, from what clients sent.

    Args:
        clients: live clients.
        asked: what each of them is asked for at present.
    """

    def __init__(self, clients: Iterable[Client], asked: Iterable[tuple[str, ...]]) -> None:
        self._bytes: dict[object, _Sums] = {}
        self._points: dict[object, _Sums] = {}
        for client, current in zip(clients, asked, strict=True):
            count = metric_count(*_kind(client), client.metrics or current)
            if not client.pushes or not count:
                continue
            for sums_by, total in ((self._bytes, client.push_bytes), (self._points, client.points)):
                for key in _keys(client) if total else ():
                    sums = sums_by.setdefault(key, _Sums())
                    sums.total += total or 0
                    sums.pushes += client.pushes
                    sums.metrics += client.pushes * count

    def bytes_per_push(self, client: Client, metrics: tuple[str, ...]) -> tuple[float, str]:
        """Bytes of a push for these prefixes [B], and what the figure is from.

        A part of a push is fixed; the rest grows with its metrics. Worked: pushes of 204 B with 2 metrics make one of
        140 + (204 - 140) x 10 / 2 = 460 B with 10.
        """
        library, role = _kind(client)
        count = metric_count(library, role, metrics)
        for key, basis in zip(_keys(client), _BASES, strict=True):
            if (known := self._bytes.get(key)) is not None:
                mean = known.total / known.pushes
                fixed = min(mean, _FIXED_BYTES)
                return fixed + (mean - fixed) * count * known.pushes / known.metrics, basis
        return _FIXED_BYTES + count * _TYPICAL_BYTES.get(library or "", _TYPICAL_BYTES_OF_OTHERS), TYPICAL

    def series(self, client: Client, metrics: tuple[str, ...]) -> float:
        """Time series of a client for these prefixes: data points of its pushes; one per metric if none are known."""
        count = metric_count(*_kind(client), metrics)
        for key in _keys(client):
            if (known := self._points.get(key)) is not None:
                return count * known.total / known.metrics
        return float(count)


SOFTWARE, LIBRARY, TYPICAL = "software", "library", "typical"
_BASES: Final = (SOFTWARE, LIBRARY)
BASIS_TEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        SOFTWARE: "from pushes of the same software",
        LIBRARY: "from pushes of other versions of the same library",
        TYPICAL: "from typical pushes of the library, since none was seen",
    }
)


def _kind(client: Client) -> tuple[str | None, str | None]:
    return library_of(client.software_name, client.software_version), client.role


def _keys(client: Client) -> tuple[object, object]:
    library, role = _kind(client)
    return (client.software, role), (library, role)
