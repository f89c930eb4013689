"""What both readers give: the data points of a batch of payloads as parallel columns, not yet interpreted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fleet.decode.arrow import Array, pa

Indices: TypeAlias = npt.NDArray[np.int64]
Payloads: TypeAlias = Sequence[bytes] | Array
"""Serialised `MetricsData`, in a list or in an Arrow array of type binary."""


def bytes_of(payloads: Payloads) -> Sequence[bytes]:
    """The payloads as Python's objects."""
    return payloads.to_pylist() if isinstance(payloads, pa.Array) else payloads


def arrow_of(payloads: Payloads) -> Array:
    """The payloads as an Arrow array."""
    return payloads if isinstance(payloads, pa.Array) else pa.array(payloads, pa.binary())


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPoints:
    """Data points, and the metrics and resources that they point to.

    Metrics and resources are in the order of their payloads. So are the points of a metric; which metric's come first
    is the reader's choice: what needs the order of the payloads sorts by `metric_of`.
    Every array of the first block has one entry a data point, of the second one a metric, of the third one a
    ResourceMetrics. Times are 0 where the client gave none.
    """

    metric_of: Indices
    kind: npt.NDArray[np.int8]
    """Index into `descriptor.KINDS`."""
    start_time_unix_nano: Array
    time_unix_nano: Array
    value: Array
    """Null for a missing value; NaN as sent."""
    count: Array
    sum: Array
    distribution: Array
    """In `distribution.DISTRIBUTIONS_TYPE`; null for a number."""
    attributes: Array
    """Lists of serialised `KeyValue`."""

    resource_of: Indices
    name: Array
    unit: Array
    scope_name: Array
    temporality: Array
    """OTLP's number: 1 delta, 2 cumulative; null where the metric's kind has none."""
    is_monotonic: Array
    """Null unless the metric is a sum."""

    push_of: Indices
    resource: Array
    """Serialised `Resource`, its pieces joined."""


class RefusedError(Exception):
    """A reader cannot say what a batch holds; another reader, or a smaller batch, may."""
