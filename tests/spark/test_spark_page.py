"""`fleetgauge.spark` on pushes of real clients; the questions of docs/analyse/fleet-spark.md, answered by its code."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow.dataset as ds
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from pyspark.sql import DataFrame, SparkSession
from support.fleet.killed_runs import QUICK_SPARK
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.schemas import CONSUMERS, POINTS, PUSHES
from fleetgauge.spark import Selection, read_points, read_pushes, read_windows
from fleetgauge.telemetry.catalogue.dialects import parse_node

PAGE = Path(__file__).parents[2] / "docs" / "analyse" / "fleet-spark.md"
LANDING = str(Path(__file__).parent / "recorded" / "broker")
NODE_LATENCY = re.compile(r"org\.apache\.kafka\..*\.node\.request\.latency\.avg")
CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("analyst") / "fleet"
    done = CliRunner().invoke(app, ["run", "--source", LANDING, "--tables", str(root), *QUICK_SPARK])
    assert done.exit_code == 0, done.output
    return str(root)


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tables: str) -> dict[str, Any]:
    """The names that the page's code leaves; its paths are those of the tests, and its session is."""
    names: dict[str, Any] = {"spark": spark}
    text = PAGE.read_text().replace('"./fleetgauge-data/landing"', repr(LANDING)).replace('"./fleet"', repr(tables))
    text = re.sub(r'"\./(checkpoint|pushes)"', rf'"{tables}-\1"', text)
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        code = compile(block, str(PAGE), "exec")
        if "SparkSession.builder" in block or "broker:9092" in block:
            continue
        exec(code, names)
    return names


def test_the_page_s_stream_has_the_pushes_of_the_zone(
    answers: dict[str, Any], spark: SparkSession, tables: str
) -> None:
    streamed = spark.read.parquet(f"{tables}-pushes").dropDuplicates(["push_id"])
    assert streamed.count() == read_pushes(spark, LANDING).count() > 0


def test_the_page_answers_which_metrics_make_up_the_volume(answers: dict[str, Any]) -> None:
    points, instances = Counter[tuple[str, str]](), defaultdict(set)
    for push, metric, _ in _sent():
        key = (metric, "java" if push["client_id"].startswith("java") else "librdkafka")
        points[key] += 1
        instances[key].add(push["client_instance_id"])
    found = {(row.metric_name, row.dialect): (row.points, row.instances) for row in answers["volume"].collect()}
    assert found == {key: (count, len(instances[key])) for key, count in points.items()}
    assert len(found) > 100


def test_the_page_answers_which_brokers_are_slow_for_whom(answers: dict[str, Any]) -> None:
    of_client = defaultdict(list)
    for push, metric, point in _sent():
        if NODE_LATENCY.fullmatch(metric) and point.as_double > 0 and (node := _node(point)) >= 0:
            of_client[node, push["client_id"]].append(point.as_double)
    averages = {key: fmean(values) for key, values in of_client.items()}
    expected = {}
    for node in {node for node, _ in averages}:
        of_node = {client: average for (each, client), average in averages.items() if each == node}
        expected[node] = (pytest.approx(median(of_node.values())), max(of_node, key=of_node.__getitem__), len(of_node))
    assert expected
    found = {row.node_id: (row.median_ms, row.slowest, row.clients) for row in answers["brokers"].collect()}
    assert found == expected


def test_the_page_answers_which_member_of_a_group_does_the_work(answers: dict[str, Any]) -> None:
    consumed = defaultdict(list)
    for push, metric, point in sorted(_sent(), key=lambda sent: sent[0]["push_id"]):
        if metric == CONSUMED and not point.attributes:
            consumed[push["client_id"]].append(point.as_double)
    # The first delta of each reaches back to the time before its client was asked.
    expected = {name: (sum(values[1:]), 1.0, 1) for name, values in consumed.items()}
    assert expected.keys() == {"java-3.7.2-consumer", "java-4.4.0-consumer"}
    found = {row.client_id: (row.records, row.share, row.members) for row in answers["shares"].collect()}
    assert found == {**expected, "rdkafka-consumer": (None, None, 1)}, "librdkafka counts no records"


def _sent() -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Push, metric and data point, as protobuf's own classes read them."""
    for push in ds.dataset(LANDING).to_table().to_pylist():
        for resource in MetricsData.FromString(push["metrics"]).resource_metrics:
            for metric in (each for scope in resource.scope_metrics for each in scope.metrics):
                for point in (*metric.gauge.data_points, *metric.sum.data_points):
                    yield push, metric.name, point


def _node(point: Any) -> int:
    attributes = {each.key: each.value for each in point.attributes}
    value = attributes.get("node_id", attributes.get("node.id"))
    found = value and parse_node(value.string_value or str(value.int_value))
    return found[0] if found else -1


def test_a_source_and_the_tables_of_it_give_the_same(spark: SparkSession, tables: str) -> None:
    pushes, points = read_pushes(spark, LANDING), read_points(spark, LANDING)
    assert (pushes.columns, points.columns) == (PUSHES.names, POINTS.names)
    assert _rows(pushes) == _rows(read_pushes(spark, tables=tables))
    assert _rows(points) == _rows(read_points(spark, tables=tables))
    assert read_windows(spark, "consumers", tables=tables).columns == CONSUMERS.names


def test_the_time_zone_of_the_session_changes_nothing(spark: SparkSession) -> None:
    """In Auckland it was the next day when these were received."""
    before = [_rows(read(spark, LANDING)) for read in (read_pushes, read_points)]
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        assert [_rows(read(spark, LANDING)) for read in (read_pushes, read_points)] == before
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_selection_is_of_clients_and_times_of_all_that_is_read(spark: SparkSession, tables: str) -> None:
    pushes = sorted(read_pushes(spark, LANDING, Selection(client_ids=["rdkafka-producer"])).collect())
    assert {row.client_id for row in pushes} == {"rdkafka-producer"}
    middle = ds.dataset(LANDING).to_table().to_pylist()[40]["received_at"]
    for source in ({"source": LANDING}, {"tables": tables}):
        for read in (read_pushes, read_points):
            parts = [
                read(spark, selection=selection, **source).count()
                for selection in (Selection(), Selection(since=middle), Selection(until=middle))
            ]
            assert parts[0] == parts[1] + parts[2]
            assert min(parts) > 0
    none = read_windows(spark, "consumers", Selection(until=middle.replace(hour=0)), tables=tables)
    assert none.count() == 0


def test_what_cannot_be_read_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give a source, or tables="):
        read_pushes(spark)
    with pytest.raises(ValueError, match="not both"):
        read_points(spark, LANDING, tables=str(tmp_path))
    with pytest.raises(FleetError, match="there is no table lags by window: give one of latency,"):
        read_windows(spark, "lags", tables=str(tmp_path))
    with pytest.raises(FleetError, match=f"there is no table points in {tmp_path}: .*") as caught:
        read_points(spark, tables=str(tmp_path))
    assert "\n" not in str(caught.value)


def _rows(frame: DataFrame) -> list[str]:
    """As text, in order: NaN is no number that equals itself."""
    return sorted(str({**row.asDict(recursive=True), "received_at": str(row.received_at)}) for row in frame.collect())
