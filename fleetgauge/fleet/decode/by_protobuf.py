"""The slow reader: OpenTelemetry's classes and Python loops, for what `wire` leaves and where it is not compiled."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from fleetgauge.fleet.decode.attributes import DistinctMaps
from fleetgauge.fleet.decode.flat import KINDS, NUMBER_KINDS, FlatPoints, distribution_columns
from fleetgauge.telemetry.otlp.library_metrics import with_scope_metrics
from fleetgauge.telemetry.otlp.messages import number_of

_NOT_A_SUM = 2


def read(payloads: Sequence[bytes]) -> tuple[FlatPoints, dict[int, str]]:
    """Reads serialised `MetricsData`; what protobuf's parser refuses is left, with the parser's reason."""
    columns = _Columns()
    reasons: dict[int, str] = {}
    for index, payload in enumerate(payloads):
        try:
            data = MetricsData.FromString(with_scope_metrics(payload))
        except DecodeError as error:
            reasons[index] = f"malformed OTLP MetricsData: {str(error).rsplit(': ', 1)[-1]}"
        else:
            columns.read_payload(index - len(reasons), data)
    return columns.flat_points(), reasons


class _Columns:
    """The columns of `FlatPoints`, in arrays: a tuple for each point would keep the garbage collector busy."""

    def __init__(self) -> None:
        self._start_time, self._time = array("Q"), array("Q")
        self._value, self._has_value = array("d"), array("b")
        self._metric_of, self._set_number = array("q"), array("q")
        self._distributions: list[tuple[int, int, Any]] = []
        self._resource_of, self._name, self._unit, self._scope = array("q"), array("q"), array("q"), array("q")
        self._kind, self._temporality, self._is_monotonic = array("b"), array("b"), array("b")
        self._push_of, self._resource_number = array("q"), array("q")
        self._sets, self._resources = DistinctMaps(), DistinctMaps()
        self._texts: dict[str, int] = {}
        self._scopes: dict[tuple[str, str], int] = {}

    def read_payload(self, push: int, data: MetricsData) -> None:
        """Appends what a payload has."""
        for resource_metrics in data.resource_metrics:
            for scope_metrics in resource_metrics.scope_metrics:
                scope = (scope_metrics.scope.name, scope_metrics.scope.version)
                number = self._scopes.setdefault(scope, len(self._scopes))
                for metric in scope_metrics.metrics:
                    self._read_metric(number, metric)
            self._push_of.append(push)
            self._resource_number.append(self._resources.number_of(resource_metrics.resource.attributes))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _read_metric(self, scope: int, metric: Metric) -> None:
        kind = metric.WhichOneof("data")
        data: Any = getattr(metric, kind) if kind else None
        temporality = getattr(data, "aggregation_temporality", 0)
        if kind in NUMBER_KINDS:
            for point in data.data_points:
                self._add_point(point, number_of(point))
        elif kind:
            for point in data.data_points:
                self._distributions.append((len(self._metric_of), KINDS.index(kind), point))
                self._add_point(point, None)
        self._resource_of.append(len(self._push_of))
        self._name.append(self._text(metric.name))
        self._unit.append(self._text(metric.unit))
        self._scope.append(scope)
        self._kind.append(KINDS.index(kind) if kind else -1)
        self._temporality.append(temporality if temporality in (1, 2) else 0)
        self._is_monotonic.append(getattr(data, "is_monotonic", _NOT_A_SUM))

    def _add_point(self, point: Any, value: float | None) -> None:
        self._metric_of.append(len(self._kind))
        self._start_time.append(point.start_time_unix_nano)
        self._time.append(point.time_unix_nano)
        self._value.append(value or 0.0)
        self._has_value.append(value is not None)
        self._set_number.append(self._sets.number_of(point.attributes))

    def flat_points(self) -> FlatPoints:
        """All that was read."""
        return FlatPoints(
            metric_of=np.array(self._metric_of),
            start_time_unix_nano=np.array(self._start_time),
            time_unix_nano=np.array(self._time),
            value=np.array(self._value),
            has_value=np.array(self._has_value).astype(np.bool_),
            **distribution_columns(len(self._metric_of), self._distributions),
            set_number=np.array(self._set_number),
            sets=self._sets.maps,
            resource_of=np.array(self._resource_of),
            kind=np.array(self._kind),
            name_number=np.array(self._name),
            unit_number=np.array(self._unit),
            texts=list(self._texts),
            scope_number=np.array(self._scope),
            scopes=list(self._scopes),
            temporality=np.array(self._temporality),
            is_monotonic=np.array(self._is_monotonic),
            push_of=np.array(self._push_of),
            resource_number=np.array(self._resource_number),
            resources=self._resources.maps,
        )
