"""Result of both readers: the data points of a batch of payloads as parallel columns, not yet interpreted."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fleetgauge.fleet.arrow import Array, pa
from fleetgauge.fleet.decode.attributes import TextMap
from fleetgauge.fleet.decode.distribution import DISTRIBUTIONS_TYPE, number_or_none, of_message
from fleetgauge.telemetry.otlp.series import NO_RECORDED_VALUE

Indices: TypeAlias = npt.NDArray[np.int64]
Payloads: TypeAlias = Sequence[bytes] | Array
"""Serialised `MetricsData`, in a list or in an Arrow array of type binary."""

NUMBER_KINDS: Final = ("gauge", "sum")
DISTRIBUTION_KINDS: Final = ("histogram", "exponential_histogram", "summary")
KINDS: Final = NUMBER_KINDS + DISTRIBUTION_KINDS
"""The values of `metric_type`: the names of the fields of `Metric`'s oneof `data`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPoints:
    """Data points, and the metrics and resources that they point to, all in the order of the payloads.

    Every array of the first block has one entry a data point, of the second one a metric, of the third one a
    ResourceMetrics; `..._number` is an index into what follows it. Times are 0 where the client gave none.
    """

    metric_of: Indices
    start_time_unix_nano: npt.NDArray[np.uint64]
    time_unix_nano: npt.NDArray[np.uint64]
    value: npt.NDArray[np.float64]
    """NaN as sent."""
    has_value: npt.NDArray[np.bool_]
    count: Array
    """Null for a number, and for what no signed 64-bit number holds."""
    sum: Array
    distribution: Array
    """In `distribution.DISTRIBUTIONS_TYPE`; null for a number."""
    set_number: Indices
    sets: Sequence[TextMap]
    """Distinct attributes."""

    resource_of: Indices
    kind: npt.NDArray[np.int8]
    """Index into `KINDS`; -1 for a metric without data."""
    name_number: Indices
    unit_number: Indices
    texts: Sequence[str]
    """Distinct names and units."""
    scope_number: Indices
    scopes: Sequence[tuple[str, str]]
    """Name and version."""
    temporality: npt.NDArray[np.int8]
    """OTLP's number: 1 delta, 2 cumulative; 0 for anything else."""
    is_monotonic: npt.NDArray[np.int8]
    """0 or 1; 2 unless the metric is a sum."""

    push_of: Indices
    resource_number: Indices
    resources: Sequence[TextMap]


Reader: TypeAlias = Callable[[Sequence[bytes]], tuple[FlatPoints, dict[int, str]]]
"""Reads payloads: the data points of those that it takes, which it numbers from 0, and the index of each other one with
the reason."""


def distribution_columns(points: int, messages: Iterable[tuple[int, int, Any]]) -> dict[str, Array]:
    """The columns `count`, `sum` and `distribution` of so many points.

    Args:
        points: the length of the columns.
        messages: index, kind and message of each point that is a distribution. One with the flag "no recorded value" is
            null in all columns.
    """
    columns: dict[str, Any] = {"count": pa.int64(), "sum": pa.float64(), "distribution": DISTRIBUTIONS_TYPE}
    lists: dict[str, list[Any]] = {}
    for index, number, point in messages:
        if point.flags & NO_RECORDED_VALUE:
            continue
        if not lists:
            lists = {name: [None] * points for name in columns}
        kind = KINDS[number]
        lists["count"][index] = number_or_none(point.count)
        lists["sum"][index] = number_or_none(point.sum) if kind == "summary" or point.HasField("sum") else None
        lists["distribution"][index] = of_message(kind, point)
    return {name: pa.array(lists[name], type_) if lists else pa.nulls(points, type_) for name, type_ in columns.items()}
