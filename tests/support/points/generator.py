"""Random clients that push every kind of point that docs/reference/points.md speaks of, from a seed and quickly.

What a client does is drawn from `Feature`s; `ON` names those that page and tables read alike.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, ResourceMetrics, ScopeMetrics
from support.programs.push_log import RECEIVED_AT_US, push_record

from fleetgauge.telemetry.otlp.series import CUMULATIVE, DELTA, NO_RECORDED_VALUE
from fleetgauge.telemetry.push_record import PushRecord


class Feature(Enum):
    """What may happen in a client's pushes, beside numbers that grow."""

    SEVERAL = auto()
    """A series has several points in one push."""
    FLAGS = auto()
    """A point of a number has no recorded value."""
    NAN = auto()
    """The same, told by NaN."""
    FLAGS_OF_DISTRIBUTIONS = auto()
    SCOPES = auto()
    """One metric in several scopes; the scope of franz-go changes its version."""
    SERVICES = auto()
    """Resources with attributes that identify a service."""
    UNITS = auto()
    """Units that are converted, or are part of the identity."""
    MIXED_TEMPORALITY = auto()
    """A series changes between deltas and cumulative values."""
    RESTARTS = auto()
    """A client begins again: all its counts, with later starts."""
    RESTARTS_UNSEEN = auto()
    """The first push after a restart has no measurement of a series."""
    FALLS = auto()
    """A cumulative number falls without a start time."""
    BUCKETS = auto()
    """Buckets of a cumulative histogram fall, and its count with them or not."""
    BUCKETS_OF_EXPONENTIALS = auto()
    BOUNDS = auto()
    """A histogram changes its bounds."""
    SCALES = auto()
    """An exponential histogram changes its scale."""
    SUMMARIES = auto()
    """A summary falls: its client began again."""
    DOUBLES = auto()
    """Each point of a series twice, as librdkafka's logical brokers have them; gauges and deltas alone, since the page
    adds them up before it looks for resets."""
    MALFORMED = auto()
    """Values below 0 and infinite ones of counters, buckets that do not fit their bounds."""
    LOSSES = auto()
    REPEATS = auto()
    LATE = auto()
    """A push is delivered after the next one. All series of such a client are deltas."""
    MOMENTS = auto()
    """Two pushes are received at one moment."""


EVERYTHING: Final = frozenset(Feature)
ON: Final = EVERYTHING - {Feature.RESTARTS_UNSEEN}
"""What page and tables read by docs/reference/points.md; the page compares starts with the client's previous push."""

SECOND_NANO: Final = 1_000_000_000
BEGAN_NANO: Final = 1_749_990_000 * SECOND_NANO
INTERVAL_S: Final = 60
_COUNTS: Final = "org.apache.kafka.producer.io.wait.time.ns.total"
_LATENCY: Final = "org.apache.kafka.producer.produce.throttle.time.avg"
_KINDS: Final = ("gauge", "sum", "sum", "up_down", "histogram", "exponential_histogram", "summary", "unknown")
_FALLS: Final = {
    "sum": Feature.FALLS,
    "summary": Feature.SUMMARIES,
    "exponential_histogram": Feature.BUCKETS_OF_EXPONENTIALS,
}
_SCOPES: Final = (("", ""), ("io.app", "1"), ("io.app", "2"), ("io.other", ""))
_SCOPES_OF_FRANZ_GO: Final = (("kgo", "1.22.2"), ("kgo", "1.23.0"))
_SERVICES: Final[tuple[dict[str, str], ...]] = (
    {},
    {"service.name": "shop"},
    {"service.name": "shop", "service.instance.id": "7"},
)
_BOUNDS: Final = ((1.0, 2.0, 5.0), (1.0, 2.0, 8.0), (), (1.0, 2.0))
_ATTRIBUTES: Final = ((), (("topic", "a"),), (("topic", "a"), ("partition", 1)))


class Delivery(NamedTuple):
    """The pushes of a client: `received` in the order of their receipt, `delivered` as the page gets them."""

    received: Sequence[PushRecord]
    delivered: Sequence[PushRecord]


@dataclass(kw_only=True)
class _Series:
    """A series as its client counts it; `told` is what it has told in deltas, `told_at` until when."""

    kind: str
    name: str
    units: Sequence[str]
    scopes: Sequence[tuple[str, str]]
    service: dict[str, str]
    attributes: tuple[tuple[str, Any], ...]
    temporalities: Sequence[int]
    is_doubled: bool
    bounds: tuple[float, ...] = _BOUNDS[0]
    scale: int = 1
    counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    sum: float = 0.0
    told: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    told_sum: float = 0.0
    told_at_s: int = 0

    @property
    def is_distribution(self) -> bool:
        return self.kind in ("histogram", "exponential_histogram", "summary")

    def begin_again(self, at_s: int) -> None:
        self.counts, self.told, self.sum, self.told_sum, self.told_at_s = [0] * 4, [0] * 4, 0.0, 0.0, at_s


class Client:
    """A client of a seed."""

    def __init__(self, seed: int, features: frozenset[Feature] = ON) -> None:
        self._chance = random.Random(seed)
        self._is_late = Feature.LATE in features and self._may(0.2)
        self._features = features - {Feature.BOUNDS} if self._is_late else features
        self._seed = seed
        self._began_s = 0
        self._has_starts = self._may(0.7)
        found = [self._series() for _ in range(self._chance.randint(1, 5))]
        if self._has(Feature.SCOPES):
            found += [
                replace(each, scopes=(("io.second", "3"),), counts=[0] * 4, told=[0] * 4)
                for each in found
                if self._may(0.3)
            ]
        apart = {
            (each.kind, each.name, each.units[:1], each.scopes, str(each.service), each.attributes): each
            for each in found
        }
        self._all = list(apart.values())

    def _may(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _has(self, feature: Feature, probability: float = 1.0) -> bool:
        return feature in self._features and self._may(probability)

    def _series(self) -> _Series:
        chance = self._chance
        kind = chance.choice(_KINDS[1:6] if self._is_late else _KINDS)
        is_standard = kind in ("gauge", "sum") and self._may(0.5)
        name = {"gauge": _LATENCY, "sum": _COUNTS}[kind] if is_standard else f"app.{kind}"
        units: Sequence[str] = ("",)
        if self._has(Feature.UNITS):
            units = (
                chance.choice((("", "s", "ms", "us"), ("By",)))
                if is_standard
                else chance.choice((("",), ("s",), ("ms",)))
            )
        temporalities: Sequence[int] = (DELTA,) if self._is_late else chance.choice(((DELTA,), (CUMULATIVE,)))
        if kind in ("unknown", "summary"):
            temporalities = (0,) if kind == "unknown" else (CUMULATIVE,)
        if (
            not self._is_late
            and kind not in ("gauge", "summary", "unknown")
            and self._has(Feature.MIXED_TEMPORALITY, 0.4)
        ):
            temporalities = (DELTA, CUMULATIVE)
        scopes: Sequence[tuple[str, str]] = (("", ""),)
        if self._has(Feature.SCOPES):
            scopes = _SCOPES_OF_FRANZ_GO if self._may(0.2) else (chance.choice(_SCOPES[1:]),)
        return _Series(
            kind=kind,
            name=name,
            units=units,
            scopes=scopes,
            service=chance.choice(_SERVICES) if self._has(Feature.SERVICES) else {},
            attributes=chance.choice(_ATTRIBUTES),
            temporalities=temporalities,
            is_doubled=(kind == "gauge" or temporalities == (DELTA,)) and self._has(Feature.DOUBLES, 0.1),
        )

    def delivery(self) -> Delivery:
        """All its pushes."""
        received = []
        for number in range(self._chance.randint(1, 7)):
            push = self._push(number)
            if self._is_complete or not self._has(Feature.LOSSES, 0.1):
                received.append(push)
        delivered = list(received)
        if self._is_late:
            for at in range(len(delivered) - 1, 0, -1):
                if self._may(0.3):
                    delivered[at - 1 : at + 1] = delivered[at : at + 1] + delivered[at - 1 : at]
        delivered += [push for push in delivered[-2:] if self._has(Feature.REPEATS, 0.2)]
        return Delivery(received, delivered)

    def _push(self, number: int) -> PushRecord:
        """The push at the end of an interval."""
        end_s = (number + 1) * INTERVAL_S
        self._is_complete = False
        if number and self._may_restart() and self._has(Feature.RESTARTS, 0.1):
            self._is_complete = Feature.RESTARTS_UNSEEN not in self._features
            self._began_s = end_s - self._chance.choice((INTERVAL_S, 30))
            for series in self._all:
                series.begin_again(self._began_s)
        metrics = [
            metric
            for series in self._all
            if self._is_complete or self._may(0.85)
            for metric in self._metrics(series, end_s)
        ]
        self._chance.shuffle(metrics)
        received_at = end_s - INTERVAL_S if self._has(Feature.MOMENTS, 0.1) else end_s
        return client_push(self._seed, number, _payload(metrics, self._may(0.5)), received_at)

    def _may_restart(self) -> bool:
        """Without a start, or where a delta has told it first, a restart is a bucket that falls."""
        unclear = (series for series in self._all if not self._has_starts or len(series.temporalities) > 1)
        found = {"summary" for series in self._all if series.kind == "summary"} | {series.kind for series in unclear}
        needed = {
            "summary": Feature.SUMMARIES,
            "histogram": Feature.BUCKETS,
            "exponential_histogram": Feature.BUCKETS_OF_EXPONENTIALS,
        }
        return all(needed.get(kind, Feature.RESTARTS) in self._features for kind in found)

    def _metrics(self, series: _Series, end_s: int) -> Iterator[tuple[_Series, tuple[str, str], Metric]]:
        """The points of a series in one push, each as a metric of its own."""
        ends = [end_s]
        if self._has(Feature.SEVERAL, 0.2):
            begin_s = max(end_s - INTERVAL_S, self._began_s)
            ends = sorted({end_s, *(self._chance.randint(begin_s + 1, end_s) for _ in range(2))})
        scope = self._chance.choice(series.scopes)
        for at_s in ends:
            metric = self._point(series, at_s)
            yield series, scope, metric
            if series.is_doubled:
                yield series, scope, metric

    def _point(self, series: _Series, at_s: int) -> Metric:
        """A metric with one point."""
        chance = self._chance
        temporality = chance.choice(series.temporalities)
        metric = Metric(name=series.name, unit=chance.choice(series.units))
        kind = "sum" if series.kind in ("up_down", "unknown") else series.kind
        data: Any = getattr(metric, kind)
        if kind in ("sum", "histogram", "exponential_histogram"):
            data.aggregation_temporality = temporality
        if kind == "sum":
            data.is_monotonic = series.kind == "sum"
        point = data.data_points.add(time_unix_nano=_nano(at_s))
        if self._has_starts and kind != "gauge":
            point.start_time_unix_nano = _nano(series.told_at_s if temporality == DELTA else self._began_s)
        attributes = list(series.attributes)
        chance.shuffle(attributes)
        for key, value in attributes:
            sent = point.attributes.add(key=key).value
            if isinstance(value, int) and self._may(0.5):
                sent.int_value = value
            else:
                sent.string_value = str(value)
        flags = Feature.FLAGS_OF_DISTRIBUTIONS if series.is_distribution else Feature.FLAGS
        if not self._is_late and not self._is_complete and self._has(flags, 0.1):
            point.flags = NO_RECORDED_VALUE
            return metric
        if not self._is_late and not self._is_complete and not series.is_distribution and self._has(Feature.NAN, 0.1):
            point.as_double = math.nan
            return metric
        if not self._is_complete and self._has(Feature.MALFORMED, 0.05) and series.kind in ("sum", "histogram"):
            _spoil(series.kind, point, chance)
            return metric
        self._grow(series, temporality)
        self._fill(series, point, is_delta=temporality == DELTA)
        series.told, series.told_sum, series.told_at_s = list(series.counts), series.sum, at_s
        return metric

    def _grow(self, series: _Series, temporality: int) -> None:
        chance = self._chance
        is_cumulative = temporality == CUMULATIVE
        falls = _FALLS.get(series.kind, Feature.BUCKETS)
        if is_cumulative and series.kind not in ("gauge", "up_down") and self._has(falls, 0.1):
            series.begin_again(series.told_at_s)
        if series.kind == "histogram" and len(series.temporalities) == 1 and self._has(Feature.BOUNDS, 0.1):
            series.bounds = chance.choice(_BOUNDS)
        if series.kind == "exponential_histogram" and self._has(Feature.SCALES, 0.1):
            series.scale = chance.choice((0, 1, 2))
        counts = series.counts
        moved = min(counts[0], 3)
        if series.kind in ("histogram", "exponential_histogram") and is_cumulative and self._has(falls, 0.1):
            counts[0] -= moved
            counts[3] += moved
            series.told = [min(pair) for pair in zip(counts, series.told, strict=True)]
        for bucket in range(4):
            low = -5 if series.kind == "up_down" else 0
            counts[bucket] += chance.randint(low, 8) if self._may(0.7) else 0
        series.sum += chance.randint(0, 40) / 4 if sum(counts) > sum(series.told) else 0

    def _fill(self, series: _Series, point: Any, *, is_delta: bool) -> None:
        counts, total = series.counts, series.sum
        if is_delta:
            counts = [now - before for now, before in zip(counts, series.told, strict=True)]
            total -= series.told_sum
        if series.kind == "gauge":
            point.as_double = self._chance.choice((-1.5, 0.0, 3.25, 12.5, math.inf, -math.inf))
        elif not series.is_distribution:
            value = sum(counts)
            if self._may(0.5):
                point.as_int = value
            else:
                point.as_double = value
        else:
            point.count, point.sum = sum(counts), total
        if series.kind == "histogram":
            point.explicit_bounds.extend(series.bounds)
            width = len(series.bounds)
            point.bucket_counts.extend([*counts[:width], sum(counts[width:])])
        if series.kind == "exponential_histogram":
            # Buckets whose bounds are powers of two, or that lie within two of those, whatever the scale.
            point.scale, point.zero_count = series.scale, counts[0]
            step = 2**series.scale
            point.positive.offset = step - 1
            for count in counts[1:]:
                point.positive.bucket_counts.extend([count, *[0] * (step - 1)])
        if series.kind == "summary":
            for quantile in (0.5, 0.99):
                point.quantile_values.add(quantile=quantile, value=self._chance.randint(0, 9))


def client_push(seed: int, number: int, payload: bytes, at_s: int | None = None) -> PushRecord:
    """The push of that number of the client of that seed, received so long after the first one was due [s]."""
    number_of_push = seed * 100 + number
    return push_record(
        number_of_push,
        payload,
        push_id=f"{number_of_push:032x}",
        received_at=RECEIVED_AT_US + (number * INTERVAL_S if at_s is None else at_s) * 1_000_000,
        client_instance_id=f"{seed:022d}",
        client_id=f"client-{seed}",
        client_software_name="app",
        client_software_version="1",
        push_interval_ms=INTERVAL_S * 1_000,
        terminating=False,
    )


def _spoil(kind: str, point: Any, chance: random.Random) -> None:
    if kind == "sum":
        point.as_double = chance.choice((-1.0, math.inf))
        return
    point.count = 3
    point.explicit_bounds.extend([1.0, 2.0])
    point.bucket_counts.extend([1, 2])


def _nano(at_s: int) -> int:
    return BEGAN_NANO + at_s * SECOND_NANO


def _payload(metrics: Sequence[tuple[_Series, tuple[str, str], Metric]], joined: bool) -> bytes:
    """The metrics in resources and scopes of their own, as Java sends them, or joined as others do."""
    data = MetricsData()
    resources: dict[str, ResourceMetrics] = {}
    scopes: dict[tuple[str, tuple[str, str]], ScopeMetrics] = {}
    same: dict[Any, Any] = {}
    for series, scope, metric in metrics:
        service = str(series.service)
        if not joined or service not in resources:
            resources[service] = data.resource_metrics.add()
            for key, text in {"group_member_id": f"m-{len(metrics)}", **series.service}.items():
                resources[service].resource.attributes.add(key=key).value.string_value = text
        if not joined or (service, scope) not in scopes:
            scopes[service, scope] = resources[service].scope_metrics.add()
            scopes[service, scope].scope.name, scopes[service, scope].scope.version = scope
        kind = metric.WhichOneof("data") or ""
        body = getattr(metric, kind)
        body_key = (
            service, scope, metric.name, metric.unit, kind,
            getattr(body, "aggregation_temporality", 0), getattr(body, "is_monotonic", False),
        )  # fmt: skip
        if joined and body_key in same:
            getattr(same[body_key], kind).data_points.extend(body.data_points)
        else:
            same[body_key] = scopes[service, scope].metrics.add()
            same[body_key].CopyFrom(metric)
    return data.SerializeToString()
