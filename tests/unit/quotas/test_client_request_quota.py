import pytest
from support.quotas.quotas import CONFIG, session, set_quota, value_of

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas.client_request_quota import ClientRequestQuotaManager, nanos_to_percentage
from fleetgauge.quotas.metrics.metrics import Metrics

MS = 1_000_000


def record(manager: ClientRequestQuotaManager, nanos: int) -> int:
    """Records a request of alice's that took so long [ns]."""
    return manager.maybe_record_and_get_throttle_time_ms(session(), "app", nanos_to_percentage(nanos))


@pytest.fixture
def manager(metrics: Metrics, clock: MockTime) -> ClientRequestQuotaManager:
    return ClientRequestQuotaManager(CONFIG, metrics, clock)


def exempt_time(metrics: Metrics) -> object:
    metric = metrics.metric(metrics.metric_name("exempt-request-time", "Request"))
    assert metric is not None
    return metric.metric_value()


def test_ten_milliseconds_are_one_percent_of_a_thread() -> None:
    assert nanos_to_percentage(10 * MS) == pytest.approx(1)


def test_one_percent_is_ten_milliseconds_of_every_second(manager: ClientRequestQuotaManager, metrics: Metrics) -> None:
    set_quota(manager, "alice", None, 1)
    assert record(manager, 100 * MS) == 0, "1 % of the ten windows"
    assert value_of(metrics, "request-time", "Request", "alice", "") == pytest.approx(1)
    assert value_of(metrics, "quota-utilization", "Request", "alice", "") == pytest.approx(100)
    assert record(manager, 5 * MS) == 500, "(1.05 - 1) / 1 * 10,000 ms"


def test_more_than_one_thread_may_be_allowed(manager: ClientRequestQuotaManager) -> None:
    set_quota(manager, "alice", None, 200)
    assert record(manager, 20_000 * MS) == 0
    assert record(manager, 1_000 * MS) == 500


def test_a_pause_of_the_broker_keeps_a_client_out_for_one_window_at_most(manager: ClientRequestQuotaManager) -> None:
    set_quota(manager, "alice", None, 0.1)
    assert record(manager, 100 * MS) == 1_000, "and not for 90 seconds"


def test_a_client_far_above_its_limit_uses_one_request_of_each_connection_in_a_window(
    manager: ClientRequestQuotaManager, clock: MockTime
) -> None:
    """KIP-124: at most max(quota, C * R) a window, here 3 connections with requests of 200 ms against 10 ms."""
    set_quota(manager, "alice", None, 1)
    free_at_ms = dict.fromkeys(range(3), clock.hi_res_clock_ms())
    requests = []
    for _ in range(100):
        now_ms = clock.hi_res_clock_ms()
        for connection in (each for each, at_ms in free_at_ms.items() if at_ms <= now_ms):
            requests.append(now_ms)
            free_at_ms[connection] = now_ms + record(manager, 200 * MS)
        clock.sleep(100)
    assert all(sum(start <= at_ms < start + 1_000 for at_ms in requests) <= 3 for start in requests)
    assert len(requests) == 3 * 10


def test_the_time_of_sending_throttles_nobody_and_counts_at_the_next_request(
    manager: ClientRequestQuotaManager,
) -> None:
    set_quota(manager, "alice", None, 1)
    assert record(manager, 1 * MS) == 0
    manager.record_no_throttle(session(), "app", nanos_to_percentage(104 * MS))
    assert record(manager, 0) == 500


def test_exempt_requests_are_measured_and_no_clients_usage(
    manager: ClientRequestQuotaManager, metrics: Metrics, clock: MockTime
) -> None:
    set_quota(manager, "alice", None, 1)
    manager.exempt_sensor.record(nanos_to_percentage(200 * MS))
    manager.exempt_sensor.record(nanos_to_percentage(100 * MS))
    assert exempt_time(metrics) == pytest.approx(30 / 30), "30 percent-seconds in the registry's window of 30 s"
    assert record(manager, 100 * MS) == 0
    clock.sleep(365 * 86_400_000)
    metrics.remove_expired_sensors(clock.hi_res_clock_ms())
    assert exempt_time(metrics) == 0, "the exempt sensor never expires"


def test_the_metrics_and_sensors_of_request_time_are_those_of_kip_124(
    manager: ClientRequestQuotaManager, metrics: Metrics
) -> None:
    set_quota(manager, "alice", None, 1)
    set_quota(manager, "alice", "app", 1)
    record(manager, 1)
    tagged = {(name.name, *name.tags.values()) for name in metrics.metrics() if name.group == "Request"}
    assert tagged - {("quota-utilization", "alice", "app")} == {
        ("request-time", "alice", "app"),
        ("throttle-time", "alice", "app"),
        ("queue-size",),
        ("exempt-request-time",),
    }
    for sensor in ("Request-alice:app", "RequestThrottleTime-alice:app", "Request-delayQueue", "exempt-Request"):
        assert metrics.get_sensor(sensor) is not None


def test_without_quotas_a_request_is_not_measured(manager: ClientRequestQuotaManager) -> None:
    assert record(manager, 10_000 * MS) == 0
    set_quota(manager, "alice", None, 1)
    assert record(manager, 0) == 0, "what came before the quota does not count"


def test_the_sensor_of_exempt_time_never_expires(
    manager: ClientRequestQuotaManager, metrics: Metrics, clock: MockTime
) -> None:
    manager.record_no_throttle(session(), "app", 1)
    clock.sleep(365 * 24 * 3_600_000)
    assert metrics.remove_expired_sensors(clock.hi_res_clock_ms()) == 2, "of the client: usage and throttle time"
    assert exempt_time(metrics) == 0
