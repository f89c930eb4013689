"""Whether the deltas that a client sent add up to what it counts itself."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData


class DeltaSums:
    """Compares again and again, since a client goes on counting and pushing.

    Args:
        metric: the sum that is looked at.
        longer_ms: the push interval [ms] that the client is given by a quota; pushes before that are added up, too.
    """

    def __init__(self, metric: str, longer_ms: int) -> None:
        self._metric = metric
        self._longer_ms = longer_ms
        self._missing: dict[int, int] = {}
        self._failed = 0
        self._agreed = False

    def missing(
        self, records: Sequence[dict[str, Any]], own_count: int, *, acknowledged: int = 0, failed: int = 0
    ) -> dict[int, int]:
        """By the number of pushes at the longer interval, the least that the client counted beyond what has landed.

        `acknowledged` and `failed` are pushes, as the client saw them. While fewer have landed than were acknowledged,
        nothing is compared: the client has counted on for as long as the landing takes. A client gives up the deltas
        of a push that failed, so that one more has the comparison begin anew.

        A delta that was lost is never made up for: while no more is missing than after the first of these pushes, none
        was; half of the least delta may be, since the client counts on while its pushes land. The answer is empty once
        that was so after three more, and stays so: of several clients each agrees at a time of its own.
        """
        deltas = [(record["push_interval_ms"] == self._longer_ms, self._delta(record)) for record in records]
        longer = sum(is_longer for is_longer, _ in deltas)
        beyond = own_count - sum(delta for _, delta in deltas)
        between = min((delta for is_longer, delta in deltas if is_longer), default=0) // 2
        if failed != self._failed:
            self._failed, self._missing = failed, {}
        missing = self._missing
        if len(records) < acknowledged:
            return {} if self._agreed else missing or {0: beyond}
        if longer:
            missing[longer] = min(beyond, missing.get(longer, beyond))
        first = min(missing, default=longer)
        self._agreed = self._agreed or (longer >= first + 3 and missing[longer] <= missing[first] + between)
        return {} if self._agreed else missing or {0: beyond}

    def _delta(self, record: dict[str, Any]) -> int:
        data = MetricsData.FromString(record["metrics"])
        return sum(
            int(point.as_int or point.as_double)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == self._metric
            for point in metric.sum.data_points
        )
