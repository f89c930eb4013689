"""Metrics as franz-go computes them: zero values are left out, and nodes without requests; whole milliseconds.

Its `avg` of a time is the sum over the interval divided by the interval's length (`metrics_714.go`, `rollNums`), not by
the number of requests, and its `rate` is always 1. Both are sent as they are.
"""

from collections.abc import Iterator

from benchmarks.fleet_model.levers import STEP_S
from benchmarks.fleet_model.otlp import Point
from benchmarks.fleet_model.view import View


def franz_go_points(view: View) -> Iterator[Point]:
    """All points of a push that are not zero."""
    return (point for point in _points(view) if point.value)


def _points(view: View) -> Iterator[Point]:
    history, since, role = view.history, view.since(), view.app.role
    interval_ms = max((since.stop - since.start) * STEP_S * 1000, 1.0)
    created = int(view.total(history.created, since))
    yield Point(f"{role}.connection.creation.rate", 1.0 if created else 0.0)
    yield Point(f"{role}.connection.creation.total", created, True)
    latency = view.by_broker(history.latency_sum, since)
    longest = history.latency_max[since, view.slot].max(axis=0)
    for broker, node_id in enumerate(view.fleet.broker_ids):
        node: dict[str, str | int] = {"node_id": node_id}
        yield Point(f"{role}.node.request.latency.avg", float(latency[broker] // 1 / interval_ms), attributes=node)
        yield Point(f"{role}.node.request.latency.max", int(longest[broker]), attributes=node)
    if role == "producer":
        yield Point("producer.produce.throttle.time.avg", view.total(history.throttle_sum, since) // 1 / interval_ms)
        yield Point("producer.produce.throttle.time.max", int(view.longest(history.throttle_max, since)))
    else:
        yield Point("consumer.coordinator.commit.latency.avg", view.total(history.commit_sum, since) // 1 / interval_ms)
        yield Point("consumer.coordinator.commit.latency.max", int(view.longest(history.commit_max, since)))
