"""What the Prometheus page, the tables and the reference model make of the same pushes.

How the pieces fit: a point of the tables is one of the model by its push and its place in that. A series of the page is
all series of the model that it can tell no more: by its labels, which are those of the attributes and of the origin
(`page_key`).
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.payloads.client_series import batch_of
from support.points.model import Model, Series, SeriesId

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.exporter import Delivered
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.names import escaped, normalised
from fleetgauge.exporters.prometheus.points import GRID
from fleetgauge.exporters.prometheus.settings import Address, PrometheusSettings, SeriesSettings
from fleetgauge.exporters.prometheus.shapes import Shape, Shapes
from fleetgauge.fleet.silver.batch import points_of
from fleetgauge.fleet.silver.check import check
from fleetgauge.fleet.silver.live import bronze_of
from fleetgauge.fleet.silver.repeats import ORDER, WithoutRepeats
from fleetgauge.telemetry.push_record import PushRecord

_PAGE: Final = PrometheusSettings(
    listen=Address(port=0), series=SeriesSettings(max_series=10**9, max_per_client=10**6, max_per_metric=10**9)
)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class PageKey(NamedTuple):
    """A series of a client on the page."""

    name: str
    kind: str
    unit: str
    labels: frozenset[tuple[str, str]]


Page = dict[PageKey, tuple[float, ...]]
"""The numbers of each series that is shown: a value; or count, sum, and the counts of buckets, or quantiles' values."""


class _NoShapes(Shapes):
    """Has every push parsed."""

    def find(self, payload: bytes) -> Shape | None:
        return None

    def learn(self, payload: bytes) -> Shape | None:
        return None


def pages_of(pushes: Sequence[PushRecord], *, parse_all: bool = False) -> dict[str, Page]:
    """The page after these pushes, by client instance."""
    exporter = PrometheusExporter("page", _PAGE, time=MockTime(wall_ms=pushes[0].received_at // 1_000))
    if parse_all:
        exporter._shapes = _NoShapes(exporter._reader)
    exporter.start()
    try:
        assert exporter.export(batch_of(*pushes)) == Delivered()
        return {key[1]: _page_of(client) for key, client in exporter._table._clients.items()}
    finally:
        exporter.close()


def _page_of(client: Any) -> Page:
    return {
        PageKey(metric.name, metric.kind, metric.unit, frozenset(_LABEL.findall(series.labels))): shown
        for metric, series in client.every_series()
        if (shown := series.shown())
    }


def model_of(pushes: Iterable[PushRecord]) -> Model:
    """The model after a client's pushes, which are in the order of their receipt."""
    model = Model()
    for push in pushes:
        model.take(push.push_id, push.received_at, MetricsData.FromString(push.metrics))
    return model


def page_of_model(model: Model) -> Page:
    """The page that follows from the model's series. Known exceptions are here and nowhere else:

    - series that no label tells apart are added up; of gauges the largest is shown (docs/reference/points.md, What
      identifies a series),
    - a sum that may fall, and a summary, shows its latest value (What a series grew by),
    - a histogram begins again with other bounds, which its buckets on the page have in common.
    """
    found: dict[PageKey, list[tuple[float, ...]]] = {}
    gauges: set[PageKey] = set()
    for series_id, series in model.series.items():
        if series.is_shown and series.last is not None:
            kind = _page_kind(series_id, series)
            key = page_key(series_id, kind)
            found.setdefault(key, []).append(_shown(series_id, kind, series))
            if series_id.kind == "gauge":
                gauges.add(key)
    return {
        key: tuple([(max if key in gauges else sum)(each) for each in zip(*several, strict=True)])
        for key, several in found.items()
    }


def page_key(series: SeriesId, kind: str) -> PageKey:
    """The page's series of one of the model."""
    labels = normalised(dict(series.attributes) | dict(series.origin))
    return PageKey(series.name, kind, series.unit, frozenset((name, escaped(text)) for name, text in labels.items()))


def _page_kind(series_id: SeriesId, series: Series) -> str:
    if series_id.kind == "sum":
        data = series.last.data if series.last else None
        return "counter" if data and data.is_monotonic and data.aggregation_temporality in (1, 2) else "gauge"
    return "histogram" if "histogram" in series_id.kind else series_id.kind


def _shown(series_id: SeriesId, kind: str, series: Series) -> tuple[float, ...]:
    assert series.last is not None
    total = float(sum(series.grown.values()))
    if kind == "counter":
        return (total,)
    if kind == "gauge":
        running = series.running if series_id.kind == "sum" else {}
        return (float(sum(running.values())) if running else series.value,)
    if kind == "summary":
        sent = series.last.sent
        return (float(sent.count), sent.sum, *(each.value for each in sent.quantile_values))
    if series_id.kind == "histogram":
        return (total, series.grown_sum, *(float(series.grown[bound]) for bound in sorted(series.grown)))
    buckets = [0.0] * (len(GRID) + 1)
    for bound, count in series.grown.items():
        buckets[bisect_left(GRID, bound)] += count
    return (total, series.grown_sum, *buckets)


COMPARED: Final = ["push_id", "point_index", "value", "count", "sum", "delta", "delta_sum", "reset"]
Row = dict[str, Any]


def rows_of(pushes: Sequence[PushRecord]) -> list[Row]:
    """COMPARED of every point of these pushes, as silver has them when all come at once."""
    chunk = check(bronze_of(pushes))
    chunk = chunk.take(pc.sort_indices(chunk, sort_keys=[(name, "ascending") for name in ORDER]))
    found = list(points_of(WithoutRepeats()([chunk])))
    return pa.Table.from_batches(found).select(COMPARED).to_pylist() if found else []


def rows_as_defined(rows: Iterable[Row], models: Iterable[Model]) -> Iterator[tuple[Row, Row]]:
    """Rows of the tables, each with what it should be. Of what is no measurement no value is told: a malformed one
    stays in the tables as sent.
    """
    changes = {place: change for model in models for place, change in model.changes.items()}
    for row in rows:
        row = {name: row[name] for name in COMPARED}
        change = changes[row["push_id"], row["point_index"]]
        told = dict(row) | {"delta": change.growth, "delta_sum": None, "reset": change.is_reset}
        if change.growth is not None and row["sum"] is not None:
            told["delta_sum"] = change.growth_of_sum
        if change.value is not None:
            told["count" if row["value"] is None else "value"] = change.value
        found = row | {"delta": row["delta"], "reset": bool(row["reset"])}
        if change.growth is None:  # null, or 0 of what is malformed
            found |= {name: found[name] or None for name in ("delta", "delta_sum")}
        yield found, told


def same_numbers(found: Iterable[float | None], told: Iterable[float | None]) -> bool:
    """True if they are equal but for the rounding of a conversion between units."""
    pairs = list(zip(found, told, strict=True))
    return all(a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9)) for a, b in pairs)
