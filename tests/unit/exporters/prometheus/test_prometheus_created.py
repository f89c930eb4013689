"""Start times on the page: OpenMetrics' `_created`, with the key `created.timestamps`."""

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from support.payloads.client_series import (
    CUMULATIVE,
    DELTA,
    REQUESTS,
    counter,
    export,
    gauge,
    page_of,
    push,
    samples_of,
)

CREATED = "org_apache_kafka_producer_request_created"


def histogram(start: int, *, total: float | None = 9) -> Metric:
    metric = Metric(name="app.size")
    metric.histogram.aggregation_temporality = DELTA
    times = {"start_time_unix_nano": start, "time_unix_nano": start + 1}
    metric.histogram.data_points.add(count=3, sum=total, bucket_counts=[1, 2], explicit_bounds=[10], **times)
    return metric


def summary(start: int) -> Metric:
    metric = Metric(name="app.wait")
    metric.summary.data_points.add(count=4, sum=10, start_time_unix_nano=start).quantile_values.add(
        quantile=0.5, value=2
    )
    return metric


def test_by_default_there_are_none(start: Any) -> None:
    exporter = start()
    export(exporter, push(1, counter(5, start=100, at=160)))
    assert "_created" not in page_of(exporter)


@pytest.mark.parametrize("temporality", [DELTA, CUMULATIVE])
def test_the_start_of_the_first_measurement_is_kept(start: Any, temporality: Any) -> None:
    """Over later pushes, which may be read by their shape, a reset, and a restart."""
    exporter = start(created_timestamps=True)
    for number in range(1, 9):
        value = 3 if number == 7 else number
        export(exporter, push(number, counter(value, temporality=temporality, start=100.25 + number, at=160 + number)))
        assert samples_of(exporter).one(CREATED) == 101.25
    exporter.close()
    exporter = start(created_timestamps=True)
    assert samples_of(exporter).one(CREATED) == 101.25
    export(exporter, push(9, counter(9, temporality=temporality, start=200, at=260)))
    assert samples_of(exporter).one(CREATED) == 101.25


def test_of_several_points_in_one_push_the_first_by_time_counts(start: Any) -> None:
    exporter = start(created_timestamps=True)
    export(exporter, push(1, counter(5, start=160, at=220), counter(5, start=100, at=160)))
    assert samples_of(exporter).one(CREATED) == 100


def test_counters_histograms_and_summaries_have_one_if_their_client_sends_a_start(start: Any) -> None:
    """Next to the other lines of their series, since a strict parser wants them together."""
    exporter = start(created_timestamps=True)
    started = gauge(1)
    started.gauge.data_points[0].start_time_unix_nano = 5
    may_fall = counter(1, name="app.open", start=5)
    may_fall.sum.is_monotonic = False
    topics = [counter(1, start=number, topic=str(number)) for number in range(3)]
    second = 1_000_000_000
    metrics = [histogram(7 * second), summary(8 * second), *topics, started, may_fall]
    export(exporter, push(1, *metrics))
    found = samples_of(exporter)
    assert {labels["topic"]: value for labels, value in found.all(CREATED)} == {"1": 1, "2": 2}
    assert (found.one("app_size_created"), found.one("app_wait_created")) == (7, 8)
    assert len([name for name in found.names() if name.endswith("_created")]) == 3
    export(exporter, push(2, histogram(9 * second, total=None), counter(1, name="app.wait.created")))
    samples_of(exporter)


def test_prometheus_text_format_has_none(start: Any) -> None:
    exporter = start(created_timestamps=True)
    export(exporter, push(1, counter(5, start=100), counter(6, topic="a"), histogram(7), summary(8), gauge(1)))
    assert "_created" in page_of(exporter)
    text = page_of(exporter, "text/plain")
    exporter.close()
    without = start()
    assert page_of(without, "text/plain").splitlines()[:20] == text.splitlines()[:20]
    assert "_created" not in text + page_of(without)


def test_a_file_of_before_has_no_start_times_and_one_that_has_is_read_without_the_setting(
    start: Any, tmp_path: Path
) -> None:
    exporter = start()
    export(exporter, push(1, counter(5, start=100)))
    exporter.close()
    assert "created" not in layout_of(tmp_path)
    exporter = start(created_timestamps=True)
    export(exporter, push(2, counter(7, start=160), counter(1, name="app.new", start=160)))
    found = samples_of(exporter)
    assert (found.all(CREATED), found.one("app_new_created")) == ([], 160)
    exporter.close()
    assert layout_of(tmp_path)["created"] == [0, 160_000_000_000]
    exporter = start()
    export(exporter, push(3, counter(1, start=220)))
    assert samples_of(exporter).one("app_new_total") == 1
    assert "_created" not in page_of(exporter)


@pytest.mark.parametrize("created", [[], [1, 2], ["x"], [1.5], None])
def test_damaged_start_times_cost_their_client_alone_its_counters(start: Any, tmp_path: Path, created: Any) -> None:
    exporter = start(created_timestamps=True)
    export(exporter, *(push(n, counter(5, start=9), client_instance_id=name * 22) for n, name in enumerate("ab")))
    exporter.close()
    layout = {**layout_of(tmp_path), "created": created}
    with apsw.Connection(str(tmp_path / "state.db")) as database:
        database.execute("UPDATE layouts SET layout = ? WHERE client LIKE '%aaa%'", (json.dumps(layout),))
    database.close()
    found = samples_of(start(created_timestamps=True))
    assert len(found.all(f"{REQUESTS.replace('.', '_')}")) == 1


def layout_of(directory: Path) -> dict[str, Any]:
    """The saved layout of the first client with series."""
    database = apsw.Connection(str(directory / "state.db"))
    found = [json.loads(layout) for (layout,) in database.execute("SELECT layout FROM layouts")]
    database.close()
    return next(layout for layout in found if layout["metrics"])
