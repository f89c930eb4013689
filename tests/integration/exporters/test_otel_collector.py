"""The `otlp` exporter at a real OpenTelemetry Collector: what arrives in its file equals what was pushed plus labels.

So it is through every fault; each test runs over gRPC and over HTTP, and prints how many were pushed and delivered.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from structlog.testing import capture_logs
from support.certificates import Authority
from support.payloads.payloads import metrics_data
from support.programs.delivery import Delivery, instance_id, real_records
from support.programs.push_log import push_record
from support.proxies.resetting_proxy import ResettingProxy
from support.receivers.otel_collector import OtelCollector, compare, missing_tools
from support.waiting import ticking, wait_for

from fleetgauge.exporters.labels import LabelSettings
from fleetgauge.telemetry.push_record import PushRecord

# The first time the collector is built, which takes minutes: only the tests themselves are timed.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900, func_only=True)]

MEMORY_LIMITER = {"memory_limiter": {"limit_mib": 5, "spike_limit_mib": 4, "check_interval": "100ms"}}
"""So little that nothing ever passes."""


@pytest.fixture(params=["grpc", "http/protobuf"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[OtelCollector]:
    if missing_tools():
        pytest.skip(missing_tools())
    with OtelCollector(tmp_path / "collector") as made:
        yield made


def delivery_to(collector: OtelCollector, protocol: str, **keys: Any) -> Delivery:
    usual = {
        "type": "otlp", "protocol": protocol, "endpoint": f"http://127.0.0.1:{collector.port(protocol)}",
        "linger__ms": 10, "batch__max__records": 50,
    }  # fmt: skip
    return Delivery(collector.directory.parent, **{**usual, **keys})


def assert_all_arrived(
    collector: OtelCollector, pushed: Sequence[PushRecord], settings: LabelSettings | None = None
) -> int:
    """Every push arrived, as it was; how many came again."""
    arrived, repeated = compare(collector, pushed, settings)
    due = sum(bool(record.metrics) for record in pushed)
    print(f"pushed {due}, delivered {arrived}, lost {due - arrived}, repeated {repeated}")
    assert arrived == due
    return repeated


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_arrives_is_what_was_pushed_plus_labels(collector: OtelCollector, protocol: str, compression: str) -> None:
    records = real_records(300)
    static = {"environment": "test"}
    collector.start()
    with delivery_to(collector, protocol, compression=compression, static__labels=static) as delivery:
        delivery.push(*records)
        delivery.wait_delivered()
        assert delivery.stats().retried == {}
    assert assert_all_arrived(collector, records, LabelSettings(static=tuple(static.items()))) == 0


def test_a_collector_that_is_away_and_comes_back_and_is_killed_at_work_gets_everything(
    collector: OtelCollector, protocol: str
) -> None:
    records = real_records(1_500)
    with delivery_to(collector, protocol) as delivery:
        delivery.push(*records[:300])
        delivery.wait(lambda stats: stats.retried.get("unavailable", 0) >= 3, "three tries without a collector")
        collector.start()
        delivery.wait_delivered()
        for start in (300, 600, 900):
            collector.kill()
            delivery.push(*records[start : start + 150])
            wait_for_a_try_in_vain(delivery)
            delivered = delivery.stats().delivered_batches
            collector.start()
            delivery.push(*records[start + 150 : start + 300])
            wait_for_batches_after(delivery, delivered)
        collector.stop()
        delivery.push(*records[1_200:])
        collector.start()
        delivery.wait_delivered()
        assert delivery.stats().refused == {}
    assert_all_arrived(collector, records)


def wait_for_a_try_in_vain(delivery: Delivery) -> None:
    before = delivery.stats().retried.get("unavailable", 0)
    delivery.wait(lambda stats: stats.retried.get("unavailable", 0) > before, "a try without a collector")


def wait_for_batches_after(delivery: Delivery, number: int) -> None:
    delivery.wait(lambda stats: stats.delivered_batches > number, "a delivery to the collector that is back")


def test_a_collector_that_hangs_gets_everything_when_it_goes_on(collector: OtelCollector, protocol: str) -> None:
    records = real_records(200)
    collector.start()
    with delivery_to(collector, protocol, timeout__ms=500) as delivery:
        delivery.push(*records[:100])
        delivery.wait_delivered()
        collector.hold()
        try:
            delivery.push(*records[100:])
            delivery.wait(lambda stats: stats.retried.get("deadline_exceeded", 0) >= 2, "two calls that hung")
        finally:
            collector.go_on()
        delivery.wait_delivered()
    assert_all_arrived(collector, records)


def test_calls_that_are_reset_in_the_middle_are_made_again(collector: OtelCollector, protocol: str) -> None:
    records = real_records(200)
    collector.start()
    with (
        ResettingProxy(collector.port(protocol), after_bytes=30_000, times=5) as proxy,
        delivery_to(collector, protocol, endpoint=f"http://127.0.0.1:{proxy.port}") as delivery,
    ):
        delivery.push(*records)
        delivery.wait_delivered()
        assert proxy.resets == 5
        assert delivery.stats().retried.get("unavailable", 0) >= 1
    assert_all_arrived(collector, records)


def test_a_collector_short_of_memory_is_waited_for(collector: OtelCollector, protocol: str) -> None:
    records: list[PushRecord] = []
    collector.processors = MEMORY_LIMITER
    collector.start()
    with delivery_to(collector, protocol) as delivery:

        def push_one_more() -> dict[str, int]:
            records.extend(real_records(1, start=len(records)))
            delivery.push(records[-1])
            return delivery.stats().retried

        # It looks at its memory for the first time a moment after its start.
        wait_for(push_one_more, "a collector short of memory")
        more = real_records(100, start=len(records))
        records += more
        delivery.push(*more)
        delivery.wait(lambda stats: sum(stats.retried.values()) >= 3, "three tries at a collector short of memory")
        assert set(delivery.stats().retried) == {"http_503" if protocol == "http/protobuf" else "unavailable"}
        assert delivery.stats().refused == {}
        collector.stop()
        collector.processors = {}
        collector.start()
        delivery.wait_delivered()
    assert assert_all_arrived(collector, records) == 0


def test_a_batch_that_is_too_large_is_cut_and_only_the_giant_is_given_up(
    collector: OtelCollector, protocol: str
) -> None:
    collector.receiver = {"grpc": {"max_recv_msg_size_mib": 1}, "http": {"max_request_body_size": 1 << 20}}
    collector.start()
    records = [large(number, 300_000) for number in range(12)]
    records[5] = large(5, 1_500_000)
    with delivery_to(collector, protocol, max__request__bytes=64 << 20, batch__max__bytes=64 << 20) as delivery:
        delivery.push(*records)
        delivery.wait_delivered()
        stats = delivery.stats()
        assert sum(stats.refused.values()) == 1
        assert stats.splits > 0
        assert stats.delivered_records == 11
    assert assert_all_arrived(collector, [record for record in records if record is not records[5]]) == 0


def large(number: int, size: int) -> PushRecord:
    """A push of about so many bytes."""
    data = MetricsData.FromString(metrics_data(1))
    data.resource_metrics[0].scope_metrics[0].metrics[0].description = os.urandom(size // 2).hex()
    return push_record(number, data.SerializeToString(), client_instance_id=instance_id(number))


def test_a_payload_that_cannot_be_read_is_not_sent_and_the_rest_arrives(
    collector: OtelCollector, protocol: str
) -> None:
    collector.start()
    records = real_records(60)
    # Well-formed as far down as labels are put on, and garbage below.
    bad = push_record(7, b"\x0a\x06\x12\x04\x12\x02\x0a\x7f", client_instance_id=instance_id(7))
    with delivery_to(collector, protocol) as delivery:
        delivery.push(*records[:7], bad, *records[8:])
        delivery.wait_delivered()
        assert delivery.stats().refused == {"malformed_payload": 1}
        assert delivery.stats().delivered_records == 59
    assert assert_all_arrived(collector, [*records[:7], *records[8:]]) == 0


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    directory = tmp_path_factory.mktemp("tls")
    return Authority(directory / "ours"), Authority(directory / "others", name="Another CA")


def tls_of(authority: Authority, clients: Authority | None = None) -> dict[str, Any]:
    """The collector's side of TLS; `clients` is whose certificates it wants to see."""
    server = authority.issue("server", "/CN=localhost")
    wanted = {} if clients is None else {"client_ca_file": str(clients.certificate)}
    return {"both": {"tls": {"cert_file": str(server.certificate), "key_file": str(server.key), **wanted}}}


def test_wrong_certificates_are_told_once_in_words_and_the_right_ones_deliver(
    collector: OtelCollector, protocol: str, authorities: tuple[Authority, Authority]
) -> None:
    ours, others = authorities
    client = ours.issue("client", "/CN=fleetgauge")
    records = real_records(50)
    collector.receiver = tls_of(others)
    collector.start()
    keys = {
        "endpoint": f"https://127.0.0.1:{collector.port(protocol)}", "tls__ca__file": str(ours.certificate),
        "tls__cert__file": str(client.certificate), "tls__key__file": str(client.key),
    }  # fmt: skip
    with capture_logs() as logs, delivery_to(collector, protocol, **keys) as delivery:
        delivery.push(*records)
        delivery.wait(lambda stats: sum(stats.retried.values()) >= 4, "four tries with a wrong certificate")
        [said] = [log for log in logs if log["event"] == "delivery.retrying"]
        assert said["reason"] == "tls"
        assert said["detail"].startswith("the receiver's certificate is not trusted, or not for this host: check")
        collector.stop()
        collector.receiver = tls_of(ours, clients=ours)
        collector.start()
        delivery.wait_delivered()
    assert_all_arrived(collector, records)


def test_a_client_certificate_that_is_not_accepted_is_told_in_words(
    collector: OtelCollector, protocol: str, authorities: tuple[Authority, Authority]
) -> None:
    ours, others = authorities
    collector.receiver = tls_of(ours, clients=others)
    collector.start()
    keys = {"endpoint": f"https://127.0.0.1:{collector.port(protocol)}", "tls__ca__file": str(ours.certificate)}
    with delivery_to(collector, protocol, **keys) as delivery:
        delivery.push(*real_records(1))
        delivery.wait(lambda stats: sum(stats.retried.values()) >= 2, "two tries without a client certificate")
        assert "check tls.cert.file" in str(delivery.stats().last_error)
        assert delivery.stats().refused == {}
    assert not list(collector.received())


@pytest.mark.soak
def test_a_minute_without_a_collector_loses_nothing(collector: OtelCollector, protocol: str) -> None:
    records = real_records(30_000)
    collector.start()
    with delivery_to(collector, protocol, batch__max__records=5_000) as delivery:
        pushed: list[PushRecord] = []
        is_away = False
        for passed_s in ticking(70.0, every_s=0.25):
            batch = records[len(pushed) : len(pushed) + 100]
            delivery.push(*batch)
            pushed += batch
            if passed_s > 10 and not is_away:
                collector.stop()
                is_away = True
        before = delivery.stats().delivered_batches
        collector.start()
        wait_for_batches_after(delivery, before)
        delivery.wait_delivered()
    assert_all_arrived(collector, pushed)
