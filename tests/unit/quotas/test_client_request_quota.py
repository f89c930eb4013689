from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from support.quotas import CONFIG, session, set_quota, value_of

from base.clock import MockTime
from quotas.client_request_quota import ClientRequestQuotaManager, nanos_to_percentage
from quotas.metrics import Metrics
from quotas.session import Session

MS = 1_000_000


@dataclass
class Request:
    request_thread_time_nanos: int
    session: Session = field(default_factory=session)
    client_id: str = "app"
    record_network_thread_time: Callable[[int], None] | None = None

    def sent_in(self, nanos: int) -> None:
        assert self.record_network_thread_time is not None
        self.record_network_thread_time(nanos)


@pytest.fixture
def manager(metrics: Metrics, time: MockTime) -> ClientRequestQuotaManager:
    return ClientRequestQuotaManager(CONFIG, metrics, time)


def exempt_time(metrics: Metrics) -> object:
    metric = metrics.metric(metrics.metric_name("exempt-request-time", "Request"))
    assert metric is not None
    return metric.metric_value()


def test_ten_milliseconds_are_one_percent_of_a_thread() -> None:
    assert nanos_to_percentage(10 * MS) == pytest.approx(1)


def test_one_percent_is_ten_milliseconds_of_every_second(manager: ClientRequestQuotaManager, metrics: Metrics) -> None:
    set_quota(manager, "alice", None, 1)
    assert manager.maybe_record_request_and_get_throttle_time_ms(Request(100 * MS)) == 0, "1 % of the ten windows"
    assert value_of(metrics, "request-time", "Request", "alice", "") == pytest.approx(1)
    assert value_of(metrics, "quota-utilization", "Request", "alice", "") == pytest.approx(100)
    assert manager.maybe_record_request_and_get_throttle_time_ms(Request(5 * MS)) == 500, "(1.05 - 1) / 1 * 10,000 ms"


def test_more_than_one_thread_may_be_allowed(manager: ClientRequestQuotaManager) -> None:
    set_quota(manager, "alice", None, 200)
    assert manager.maybe_record_request_and_get_throttle_time_ms(Request(20_000 * MS)) == 0
    assert manager.maybe_record_request_and_get_throttle_time_ms(Request(1_000 * MS)) == 500


def test_a_pause_of_the_broker_keeps_a_client_out_for_one_window_at_most(manager: ClientRequestQuotaManager) -> None:
    set_quota(manager, "alice", None, 0.1)
    assert manager.maybe_record_request_and_get_throttle_time_ms(Request(100 * MS)) == 1_000, "and not for 90 seconds"


def test_the_time_of_sending_throttles_nobody_and_counts_at_the_next_request(
    manager: ClientRequestQuotaManager,
) -> None:
    set_quota(manager, "alice", None, 1)
    request = Request(1 * MS)
    assert manager.maybe_record_request_and_get_throttle_time_ms(request) == 0
    request.sent_in(104 * MS)
    assert manager.maybe_record_request_and_get_throttle_time_ms(Request(0)) == 500


def test_exempt_requests_are_measured_and_no_clients_usage(
    manager: ClientRequestQuotaManager, metrics: Metrics, time: MockTime
) -> None:
    exempt = Request(200 * MS)
    manager.maybe_record_exempt(exempt)
    assert exempt.record_network_thread_time is None, "without quotas nothing is measured"
    set_quota(manager, "alice", None, 1)
    manager.maybe_record_exempt(exempt)
    exempt.sent_in(100 * MS)
    assert exempt_time(metrics) == pytest.approx(30 / 30), "30 percent-seconds in the registry's window of 30 s"
    assert manager.maybe_record_request_and_get_throttle_time_ms(Request(100 * MS)) == 0
    time.sleep(365 * 86_400_000)
    metrics.remove_expired_sensors(time.hi_res_clock_ms())
    assert exempt_time(metrics) == 0, "the exempt sensor never expires"


def test_without_quotas_a_request_is_not_measured(manager: ClientRequestQuotaManager) -> None:
    request = Request(10_000 * MS)
    assert manager.maybe_record_request_and_get_throttle_time_ms(request) == 0
    assert request.record_network_thread_time is None
