import logging

import pytest
from support.quotas.quotas import Channel

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas.throttled_channel import DelayQueue, ThrottledChannel, ThrottledChannelReaper


class Broken(Channel):
    def end_throttling(self) -> None:
        super().end_throttling()
        raise OSError("the channel is gone")


@pytest.fixture
def sizes() -> list[int]:
    return []


@pytest.fixture
def reaper(sizes: list[int]) -> ThrottledChannelReaper:
    return ThrottledChannelReaper("ThrottledChannelReaper-Produce", sizes.append)


def test_a_channel_is_muted_at_once_and_unmuted_once_when_its_time_has_come(
    reaper: ThrottledChannelReaper, sizes: list[int]
) -> None:
    channel = Channel()
    reaper.throttle(channel, 100, 5_000)
    assert (channel.starts, channel.ends) == (1, 0)
    assert reaper.reap(5_099) == 0
    assert reaper.reap(5_100) == 1
    assert reaper.reap(9_000) == 0
    assert (channel.starts, channel.ends, sizes) == (1, 1, [1, -1])


def test_channels_leave_in_the_order_of_their_ends(reaper: ThrottledChannelReaper) -> None:
    clock = MockTime(monotonic_ms=0)
    channels = [Channel(time=clock) for _ in range(3)]
    for channel, throttle_time_ms in zip(channels, (300, 100, 200), strict=True):
        reaper.throttle(channel, throttle_time_ms, 0)
    for _ in range(4):
        reaper.reap(clock.hi_res_clock_ms())
        clock.sleep(100)
    assert [channel.ended_at_ms for channel in channels] == [[300], [100], [200]]


def test_a_channel_may_be_held_twice_and_needs_both_ends(reaper: ThrottledChannelReaper) -> None:
    channel = Channel()
    reaper.throttle(channel, 100, 0)
    reaper.throttle(channel, 200, 0)
    reaper.reap(150)
    assert channel.muted
    reaper.reap(200)
    assert not channel.muted


def test_shutdown_unmutes_everybody_and_from_then_on_nobody_stays_muted(
    reaper: ThrottledChannelReaper, sizes: list[int]
) -> None:
    early, late = Channel(), Channel()
    reaper.throttle(early, 2**31 - 1, 0)
    reaper.initiate_shutdown()
    assert reaper.reap(0) == 1
    reaper.throttle(late, 1_000, 0)
    assert [(channel.starts, channel.ends) for channel in (early, late)] == [(1, 1), (1, 1)]
    assert sum(sizes) == 0


def test_one_channel_that_fails_to_unmute_holds_up_no_other(
    reaper: ThrottledChannelReaper, caplog: pytest.LogCaptureFixture
) -> None:
    channels = [Broken(), Channel()]
    for channel in channels:
        reaper.throttle(channel, 10, 0)
    with caplog.at_level(logging.ERROR):
        assert reaper.reap(10) == 2
    assert [channel.ends for channel in channels] == [1, 1]
    assert "the channel is gone" in caplog.text


def test_a_channel_that_cannot_be_muted_is_not_counted_or_held(
    reaper: ThrottledChannelReaper, sizes: list[int]
) -> None:
    class Unmutable(Channel):
        def start_throttling(self) -> None:
            raise OSError("no such channel")

    with pytest.raises(OSError, match="no such channel"):
        reaper.throttle(Unmutable(), 10, 0)
    assert reaper.reap(10_000) == 0
    assert sizes == []


def test_a_driver_is_woken_when_the_first_end_becomes_earlier_and_when_the_queue_closes() -> None:
    queue, woken = DelayQueue(), []
    queue.on_wakeup(lambda: woken.append(queue.next_end_time_ms))
    for throttle_time_ms in (300, 400, 100):
        queue.add(ThrottledChannel(Channel(), throttle_time_ms, 0))
    assert woken == [300, 100], "a later end changes nothing"
    assert len(queue) == 3
    queue.close()
    assert woken == [300, 100, 100]
    assert queue.closed


def test_an_empty_queue_has_nothing_to_wait_for() -> None:
    queue = DelayQueue()
    assert queue.next_end_time_ms is None
    assert queue.poll(10**12) is None
