"""What simulated clients push has the form of what real ones pushed: names, types, temporality, attributes, units."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.testkit.simulate.simulate import Fleet, simulate

RECORDED = Path(__file__).resolve().parents[2] / "spark" / "recorded"
CLIENTS = {
    ("java", "4.4.0", "producer"): "java-4.4.0-producer",
    ("java", "4.4.0", "consumer"): "java-4.4.0-consumer",
    ("java", "3.7.2", "producer"): "java-3.7.2-producer",
    ("java", "3.7.2", "consumer"): "java-3.7.2-consumer",
    ("java", "4.3.1", "producer"): "producer",
    ("java", "4.3.1", "consumer"): "polling",
    ("librdkafka", "2.16.1-rdkafka-2.16.0", "producer"): "rdkafka-producer",
    ("librdkafka", "2.16.1-rdkafka-2.16.0", "consumer"): "rdkafka-consumer",
    ("franz-go", "v1.22.2", "producer"): "franz-go-1.22.2",
}
"""Library, version, role; and the recorded client of that kind."""
LIBRARIES = {"apache-kafka-java": "java", "kgo": "franz-go"}


def rows_of(root: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(root.rglob("pushes-*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]


def form_of(payload: bytes) -> dict[str, set[tuple[Any, ...]]]:
    """By metric: how its points look, but for their values."""
    found: dict[str, set[tuple[Any, ...]]] = {}
    for resource_metrics in MetricsData.FromString(payload).resource_metrics:
        labels = tuple(sorted(pair.key for pair in resource_metrics.resource.attributes))
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                kind = str(metric.WhichOneof("data"))
                data = getattr(metric, kind)
                of_sum = (data.aggregation_temporality, data.is_monotonic) if kind == "sum" else ()
                for point in data.data_points:
                    attributes = tuple(sorted((pair.key, pair.value.WhichOneof("value")) for pair in point.attributes))
                    found.setdefault(metric.name, set()).add(
                        (
                            kind,
                            of_sum,
                            point.WhichOneof("value"),
                            metric.unit,
                            metric.description,
                            attributes,
                            labels,
                            point.start_time_unix_nano > 0,
                            scope_metrics.scope.name.partition("#")[0] == "kgo",
                            resource_metrics.HasField("resource"),
                        )
                    )
    return found


def recorded_forms(client_id: str) -> dict[str, set[tuple[Any, ...]]]:
    forms: dict[str, set[tuple[Any, ...]]] = {}
    for path in RECORDED.rglob("*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            if row["client_id"] == client_id:
                for name, form in form_of(row["metrics"]).items():
                    forms.setdefault(name, set()).update(form)
    return forms


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], list[bytes]]:
    """Payloads by library, version and role; the first pushes of an instance among them."""
    root = tmp_path_factory.mktemp("sim") / "out"
    simulate(root, Fleet(clients=200, hours=0.2, seed=4))
    found: dict[tuple[str, str, str], list[bytes]] = {}
    for row in rows_of(root):
        library = LIBRARIES.get(row["client_software_name"], "librdkafka")
        role = "consumer" if b"kafka.consumer." in row["metrics"] else "producer"
        found.setdefault((library, row["client_software_version"], role), []).append(row["metrics"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLIENTS, ids="-".join)
def test_points_have_the_form_of_recorded_ones(
    kind: tuple[str, str, str], simulated: dict[tuple[str, str, str], list[bytes]]
) -> None:
    recorded = recorded_forms(CLIENTS[kind])
    assert recorded
    payloads = [payload for payload in simulated[kind] if len(payload) > 100][-40:]
    assert payloads
    for payload in payloads:
        for name, forms in form_of(payload).items():
            if kind[0] == "franz-go":  # recorded while it had nothing to do: two metrics, in its first push
                forms = {form[:7] + form[8:] for form in forms}
                if name in recorded:
                    assert forms == {form[:7] + form[8:] for form in recorded[name]}, name
                continue
            assert forms <= recorded[name], name


def test_a_java_client_sends_nothing_but_what_was_asked_for_and_all_of_it(
    simulated: dict[tuple[str, str, str], list[bytes]],
) -> None:
    """The fleet's subscription asks for what `fleet run` reads."""
    from fleetgauge.fleet.measures.catalogue import MEASURES

    asked = tuple(name for measure in MEASURES for name in measure.names)
    for kind, client_id in CLIENTS.items():
        if kind[0] == "java":
            expected = {name for name in recorded_forms(client_id) if name.startswith(asked)}
            largest = max(simulated[kind], key=len)
            assert set(form_of(largest)) == expected


def test_librdkafka_sends_all_of_its_metrics(simulated: dict[tuple[str, str, str], list[bytes]]) -> None:
    for kind, client_id in CLIENTS.items():
        if kind[0] == "librdkafka":
            assert set(form_of(simulated[kind][-1])) == set(recorded_forms(client_id))
