"""Each lock is shown twice: with it two threads come to what is right, without it the very same meeting goes wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from support.quotas.quotas import CONFIG, Channel, session, set_quota
from unit.quotas.interleaving import Meeting

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas import TokenBucket
from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.controller_mutation import ControllerMutationQuotaManager, MutationQuotaExceededError
from fleetgauge.quotas.default_quota_callback import DefaultQuotaCallback
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.throttled_channel import ThrottledChannelReaper

ALICE = session("alice")


@pytest.fixture
def meeting() -> Meeting:
    return Meeting()


@pytest.fixture
def produce(clock: MockTime) -> ClientQuotaManager:
    return ClientQuotaManager(CONFIG, Metrics(time=clock), QuotaType.PRODUCE, clock)


def stop_after(method: Callable[..., Any], meeting: Meeting) -> Callable[..., Any]:
    def stopping(*args: Any) -> Any:
        result = method(*args)
        meeting.point()
        return result

    return stopping


@pytest.mark.parametrize("locked", [True, False])
def test_a_sensor_made_while_its_limit_changes_has_the_new_limit(
    produce: ClientQuotaManager, meeting: Meeting, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    set_quota(produce, "alice", None, 100)
    produce._lock = meeting.lock(produce._lock, locked=locked)  # type: ignore[assignment]  # a watched lock does the same
    monkeypatch.setattr(DefaultQuotaCallback, "quota_limit", stop_after(DefaultQuotaCallback.quota_limit, meeting))
    meeting.run(
        lambda: produce.record_and_get_throttle_time_ms(ALICE, "app", 0),
        lambda: set_quota(produce, "alice", None, 10),
    )
    wait_ms = produce.record_and_get_throttle_time_ms(ALICE, "app", 200)
    assert wait_ms == (10_000 if locked else 0), "without the lock the old limit of 100 stays in force"


@pytest.mark.parametrize("locked", [True, False])
def test_a_client_looked_up_while_a_level_is_added_belongs_to_that_level(
    produce: ClientQuotaManager, meeting: Meeting, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    set_quota(produce, None, "app", 1_000)
    produce._lock = meeting.lock(produce._lock, locked=locked)  # type: ignore[assignment]  # a watched lock does the same
    monkeypatch.setattr(DefaultQuotaCallback, "metric_tags", stop_after(DefaultQuotaCallback.metric_tags, meeting))
    meeting.run(
        lambda: produce.record_and_get_throttle_time_ms(ALICE, "app", 0),
        lambda: set_quota(produce, "alice", None, 10),
    )
    wait_ms = produce.record_and_get_throttle_time_ms(ALICE, "app", 200)
    assert wait_ms == (10_000 if locked else 0), "without the lock alice keeps the client id's larger quota"


@pytest.mark.replaces
@pytest.mark.parametrize("locked", [True, False])
def test_of_two_mutations_that_come_together_the_second_sees_what_the_first_has_taken(
    clock: MockTime, meeting: Meeting, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    monkeypatch.setattr(TokenBucket, "measure", stop_after(TokenBucket.measure, meeting))
    manager = ControllerMutationQuotaManager(ClientQuotaManagerConfig(), Metrics(time=clock), clock)
    set_quota(manager, "alice", None, 10)
    quotas = [manager.new_strict_quota_for(ALICE, "app") for _ in range(2)]
    sensor = manager.get_or_create_quota_sensors(ALICE, "app").quota_sensor
    sensor.lock = meeting.lock(sensor.lock, locked=locked)  # type: ignore[assignment, misc]  # a watched lock
    results = meeting.run(lambda: quotas[0].record(111), lambda: quotas[1].record(111))
    refused = [isinstance(result, MutationQuotaExceededError) for result in results]
    assert refused == [False, locked], "without the lock both find the bucket full"


@pytest.mark.parametrize("locked", [True, False])
def test_two_who_reap_at_the_same_time_take_out_nothing_that_is_not_due(meeting: Meeting, locked: bool) -> None:
    class Moment(int):
        def __le__(self, other: int) -> bool:
            due = int(self) <= other
            meeting.point()
            return due

    reaper = ThrottledChannelReaper("reaper", lambda change: None)
    queue = reaper.delay_queue
    queue._lock = meeting.lock(queue._lock, locked=locked)  # type: ignore[assignment]  # a watched lock does the same
    due, later = Channel(), Channel()
    reaper.throttle(due, Moment(100), Moment(0))
    reaper.throttle(later, 1_000, 0)
    reaper.delay_queue._heap[0] = (Moment(100), *reaper.delay_queue._heap[0][1:])
    meeting.run(lambda: reaper.reap(100), lambda: reaper.reap(100))
    assert due.ends == 1
    assert later.ends == (0 if locked else 1), "without the lock the second head is taken for the first"


@pytest.mark.parametrize("locked", [True, False])
def test_nobody_who_is_throttled_during_the_shutdown_stays_muted(meeting: Meeting, locked: bool) -> None:
    class Order:
        def __next__(self) -> int:
            meeting.point()
            return 1

    reaper = ThrottledChannelReaper("reaper", lambda change: None)
    queue, channel = reaper.delay_queue, Channel()
    queue._lock = meeting.lock(queue._lock, locked=locked)  # type: ignore[assignment]  # a watched lock does the same
    queue._order = Order()  # type: ignore[assignment]  # an iterator of numbers

    def shutdown() -> None:
        reaper.initiate_shutdown()
        reaper.reap(0)

    meeting.run(lambda: reaper.throttle(channel, 60_000, 0), shutdown)
    assert channel.muted is not locked, "without the lock it comes into a queue that nobody looks at any more"
