"""The REQUEST quota at work, over the sans-IO connection: what is recorded, who is held, for how long, and what not."""

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from fleetgauge.base.clock import MockTime
from fleetgauge.base.principal import ANONYMOUS, KafkaPrincipal
from fleetgauge.node.listener.request_quota import RequestQuota
from fleetgauge.quotas.client_quota import ClientQuotaManagerConfig
from fleetgauge.quotas.client_request_quota import ClientRequestQuotaManager
from fleetgauge.quotas.entity import DEFAULT_CLIENT_ID_ENTITY, ClientIdEntity, UserEntity
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.channels.connection import Connection
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response

FRAME = bytes(10)
FRAMED = len(FRAME).to_bytes(4) + FRAME
ALICE = KafkaPrincipal("User", "alice")


class SansIoChannel:
    """A channel around the sans-IO connection: what would be written and read, without a socket."""

    def __init__(self, principal: KafkaPrincipal = ANONYMOUS) -> None:
        self.connection = Connection(max_frame_bytes=100, max_in_flight_requests=10)
        self.principal = principal
        self.is_authenticated = True
        self.mute = self.connection.mute
        self.unmute = self.connection.unmute


class Served:
    """A listener's work on one connection: every frame that may be handled is a push that takes `work_ms`."""

    def __init__(
        self, quota: RequestQuota, clock: MockTime, channel: SansIoChannel, client_id: str = "app", error_code: int = 0
    ) -> None:
        self.quota = quota
        self.time = clock
        self.channel = channel
        self.client_id = client_id
        self.error_code = error_code

    def handle_all(self, work_ms: float) -> list[int]:
        """The throttle times in the responses to the frames that may be handled now."""
        connection = self.channel.connection
        while connection.take() is not None:
            request = Request(72, 0, 5, self.client_id, None, connection.open_slot())
            if self.quota.clock is not None:
                request.started_ns = self.quota.clock()
                response = self.quota.handle(self.handler(work_ms), self.channel, request)  # type: ignore[arg-type]
            else:
                response = self.handler(work_ms)(self.channel, request)
            assert response is not None
            connection.respond(request.slot, response)
        data, size = connection.data_to_send(), len(encode_push_telemetry_response(0, 0, 0))
        return [int.from_bytes(data[at + 9 : at + 13]) for at in range(0, len(data), size)]

    def handler(self, work_ms: float) -> Callable[..., bytes]:
        def handle(_channel: object, request: Request) -> bytes:
            self.time.sleep(work_ms)
            return encode_push_telemetry_response(request.correlation_id, 0, self.error_code)

        return handle


@pytest.fixture
def clock() -> MockTime:
    return MockTime()


@pytest.fixture
def metrics(clock: MockTime) -> Metrics:
    return Metrics(time=clock)


@pytest.fixture
def manager(metrics: Metrics, clock: MockTime) -> ClientRequestQuotaManager:
    return ClientRequestQuotaManager(ClientQuotaManagerConfig(), metrics, clock)


@pytest.fixture
def quota(manager: ClientRequestQuotaManager, clock: MockTime) -> RequestQuota:
    return RequestQuota(manager, Identities(), ApiTable(), clock)


@pytest.fixture
def limit(manager: ClientRequestQuotaManager, quota: RequestQuota) -> Callable[[float | None], None]:
    """Sets the request quota of ANONYMOUS."""

    def set_limit(percent: float | None) -> None:
        bound = None if percent is None else Quota.upper_bound(percent)
        manager.update_quota(UserEntity.of("ANONYMOUS"), None, bound)
        quota.quotas_changed()

    return set_limit


def request_time(metrics: Metrics, user: str = "ANONYMOUS", client_id: str = "") -> float:
    metric = metrics.metric(metrics.metric_name("request-time", "Request", "", {"user": user, "client-id": client_id}))
    assert metric is not None
    return metric.measurable_value()


def test_without_a_request_quota_no_clock_is_read_and_nothing_recorded(
    quota: RequestQuota, metrics: Metrics, clock: MockTime
) -> None:
    before = set(metrics.metrics())
    channel = SansIoChannel()
    channel.connection.receive_data(FRAMED * 3)
    assert quota.clock is None
    assert Served(quota, clock, channel).handle_all(10) == [0, 0, 0]
    assert set(metrics.metrics()) == before


def test_within_the_quota_a_request_is_recorded_and_nobody_held(
    quota: RequestQuota, limit: Callable[[float], None], metrics: Metrics, clock: MockTime
) -> None:
    limit(1.0)
    channel = SansIoChannel()
    channel.connection.receive_data(FRAMED)
    assert Served(quota, clock, channel).handle_all(50) == [0]
    assert request_time(metrics) == pytest.approx(0.5), "50 ms of ten seconds"
    assert not channel.connection.is_muted


def test_a_throttled_response_ends_the_chunk_and_later_frames_wait_until_the_channel_is_unmuted(
    quota: RequestQuota,
    limit: Callable[[float], None],
    manager: ClientRequestQuotaManager,
    clock: MockTime,
) -> None:
    limit(1.0)
    channel = SansIoChannel()
    served = Served(quota, clock, channel)
    channel.connection.receive_data(FRAMED * 4)
    first, second = served.handle_all(60)
    assert (first, second) == (0, 1_000), "60 ms are within 1 % of ten seconds, 120 ms are not"
    assert served.handle_all(60) == []
    clock.sleep(second)
    manager.reaper.reap(clock.hi_res_clock_ms())
    assert len(served.handle_all(60)) == 1, "the third, which is over the quota, too"
    assert channel.connection.buffered_bytes == len(FRAME)


def test_the_throttle_time_brings_the_rate_back_to_the_limit_and_is_one_window_at_most(
    quota: RequestQuota,
    limit: Callable[[float], None],
    manager: ClientRequestQuotaManager,
    clock: MockTime,
) -> None:
    limit(1.0)
    channel = SansIoChannel()
    channel.connection.receive_data(FRAMED * 3)
    served = Served(quota, clock, channel)
    assert served.handle_all(105) == [500], "(1.05 - 1) / 1 x 10,000 ms"
    assert (channel.connection.is_muted, channel.connection.wants_read) == (True, False)
    assert list(quota.held.values()) == [1]
    assert channel.connection.buffered_bytes == 2 * len(FRAME), "and the client is not read from"
    clock.sleep(499)
    manager.reaper.reap(clock.hi_res_clock_ms())
    assert served.handle_all(1_000) == []
    clock.sleep(1)
    manager.reaper.reap(clock.hi_res_clock_ms())
    assert served.handle_all(1_000) == [1_000]
    assert quota.throttled == 2
    clock.sleep(1_000)
    manager.reaper.reap(clock.hi_res_clock_ms())
    assert not quota.held


def test_requests_that_are_refused_use_up_the_quota_too(
    quota: RequestQuota, limit: Callable[[float], None], clock: MockTime
) -> None:
    limit(1.0)
    channel = SansIoChannel()
    channel.connection.receive_data(FRAMED)
    served = Served(quota, clock, channel, error_code=ErrorCode.cluster_authorization_failed)
    assert served.handle_all(105) == [500]


def test_a_connection_that_ends_while_it_is_held_leaves_nothing_behind(
    quota: RequestQuota, limit: Callable[[float], None], manager: ClientRequestQuotaManager, clock: MockTime
) -> None:
    limit(1.0)
    channel = SansIoChannel()
    channel.connection.receive_data(FRAMED)
    assert Served(quota, clock, channel).handle_all(1_000) == [1_000]
    channel.connection.close()
    assert len(manager.reaper.delay_queue) == 1
    clock.sleep(1_000)
    assert manager.reaper.reap(clock.hi_res_clock_ms()) == 1
    assert not channel.connection.is_muted
    assert len(manager.reaper.delay_queue) == 0


def test_a_stop_unmutes_every_channel_and_holds_none_any_more(
    quota: RequestQuota, limit: Callable[[float], None], manager: ClientRequestQuotaManager, clock: MockTime
) -> None:
    limit(1.0)
    channels = [SansIoChannel() for _ in range(3)]
    for channel in channels:
        channel.connection.receive_data(FRAMED)
        Served(quota, clock, channel).handle_all(1_000)
    assert all(channel.connection.is_muted for channel in channels)
    manager.shutdown()
    assert not any(channel.connection.is_muted for channel in channels)
    channels[0].connection.receive_data(FRAMED)
    Served(quota, clock, channels[0]).handle_all(1_000)
    assert not channels[0].connection.is_muted


def test_what_comes_before_a_client_has_said_who_it_is_is_exempt(
    quota: RequestQuota, limit: Callable[[float], None], manager: ClientRequestQuotaManager, clock: MockTime
) -> None:
    limit(1.0)
    channel = SansIoChannel()
    channel.is_authenticated = False
    channel.connection.receive_data(FRAMED * 2)
    assert Served(quota, clock, channel).handle_all(1_000) == [0, 0]
    quota.record_authentication(100_000_000)
    assert manager.exempt_sensor.metrics[0].measurable_value() > 1


def test_users_do_not_pay_for_each_other(
    quota: RequestQuota, manager: ClientRequestQuotaManager, metrics: Metrics, clock: MockTime
) -> None:
    manager.update_quota(UserEntity.of("alice"), DEFAULT_CLIENT_ID_ENTITY, Quota.upper_bound(1.0))
    manager.update_quota(UserEntity.of("alice"), ClientIdEntity("app"), Quota.upper_bound(50.0))
    quota.quotas_changed()
    throttled = []
    for principal, client_id in ((ANONYMOUS, "app"), (ALICE, "app"), (ALICE, "other")):
        channel = SansIoChannel(principal)
        channel.connection.receive_data(FRAMED)
        throttled += Served(quota, clock, channel, client_id).handle_all(150)
    assert throttled == [0, 0, 1_000]
    assert request_time(metrics, "alice", "app") < 50


def test_changing_the_limit_keeps_what_was_used_and_taking_it_away_stops_the_measuring(
    quota: RequestQuota, limit: Callable[[float | None], None], metrics: Metrics, clock: MockTime
) -> None:
    limit(10.0)
    channel = SansIoChannel()
    served = Served(quota, clock, channel)
    channel.connection.receive_data(FRAMED)
    assert served.handle_all(200) == [0]
    limit(1.0)
    channel.connection.receive_data(FRAMED)
    assert served.handle_all(0) == [1_000], "the 200 ms from before count under the new limit"
    limit(None)
    assert quota.clock is None
