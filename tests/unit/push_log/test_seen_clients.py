"""The clients of a topic's records: which are known, in what state, and how many."""

import sys
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.brokers.topic import topic_message
from support.payloads.damaged_payloads import LATIN_1, REPLACED, with_rack
from support.programs.push_log import push_record

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.kafka_topic.seen_clients import KEPT_UNASSIGNED_MS, SeenClients
from fleetgauge.push_log.kafka_topic.shares import Shares
from fleetgauge.telemetry.instances.client_state import ENDED_SHOWN_MS, VANISHED_SHOWN_MS
from fleetgauge.telemetry.malformed import LOG_INTERVAL_MS, MalformedPushes

NOW = 1_750_000_000_000_000
SECOND = 1_000_000
PAYLOAD = b"x" * 50_000


def push(client: str = "a", at_s: float = 0, **fields: Any) -> Any:
    at = {"received_at": NOW + round(at_s * SECOND), "client_instance_id": client, "client_id": client}
    return push_record(0, PAYLOAD)._replace(**{**at, "push_interval_ms": 60_000, **fields})


def states(seen: SeenClients) -> dict[str, str]:
    read_up_to = seen.read_up_to()
    return {each.client_id: each.state(read_up_to[each.partition]).value for each in seen.snapshot()}


@pytest.fixture
def seen(clock: MockTime) -> SeenClients:
    return SeenClients(100, clock)


@pytest.fixture
def clock() -> MockTime:
    """Long after every push, so that no push is of the future."""
    return MockTime(wall_ms=NOW // 1_000 + 7 * VANISHED_SHOWN_MS)


def test_a_client_is_live_then_late_then_vanished_as_its_partition_is_read(seen: SeenClients) -> None:
    seen.take([(0, 0, push())])
    for at_s, state in ((0, "live"), (91, "live"), (92, "late"), (180, "vanished")):
        seen.read_to_end([0], NOW + at_s * SECOND)
        assert states(seen) == {"a": state}
    seen.take([(0, 1, push(at_s=200))])
    assert states(seen) == {"a": "live"}


def test_of_an_interval_that_changed_the_longer_one_counts_for_a_push(seen: SeenClients) -> None:
    seen.take([(0, 0, push(push_interval_ms=300_000)), (0, 1, push(at_s=300, push_interval_ms=15_000))])
    seen.read_to_end([0], NOW + 700 * SECOND)
    assert states(seen) == {"a": "live"}
    seen.take([(0, 2, push(at_s=701, push_interval_ms=15_000))])
    seen.read_to_end([0], NOW + 770 * SECOND)
    assert states(seen) == {"a": "vanished"}


def test_what_is_not_read_says_nothing_of_a_client(seen: SeenClients) -> None:
    """Another partition's progress, or the time that passes, makes nobody late."""
    seen.take([(0, 0, push()), (1, 0, push("b", at_s=3_600))])
    seen.read_to_end([1], NOW + 7_200 * SECOND)
    assert states(seen) == {"a": "live", "b": "vanished"}


def test_the_pushes_of_others_in_its_partition_show_that_a_client_is_silent(seen: SeenClients) -> None:
    seen.take([(0, 0, push()), (0, 1, push("b", at_s=200))])
    assert states(seen) == {"a": "vanished", "b": "live"}


def test_a_terminating_push_ends_a_client_whatever_comes_after_it(seen: SeenClients) -> None:
    seen.take([(0, 0, push()), (0, 1, push(at_s=1, terminating=True))])
    seen.read_to_end([0], NOW + 1_000 * SECOND)
    assert states(seen) == {"a": "ended"}


def test_records_that_are_read_again_or_by_another_exporter_count_once(seen: SeenClients) -> None:
    records = [(0, 0, push(payload_bytes=10)), (0, 1, push(at_s=60, payload_bytes=5))]
    for _ in range(3):
        seen.take(records)
    seen.take(records[:1])
    (client,) = seen.snapshot()
    assert (client.pushes, client.push_bytes) == (2, 15)
    assert client.latest.received_at == NOW + 60 * SECOND


def test_in_a_topic_that_was_made_anew_a_client_goes_on_at_a_lower_offset(seen: SeenClients) -> None:
    seen.take([(0, 900, push()), (0, 0, push(at_s=60))])
    (client,) = seen.snapshot()
    assert client.latest.received_at == NOW + 60 * SECOND


def test_a_client_that_more_partitions_move_is_listed_in_its_new_one(seen: SeenClients) -> None:
    seen.take([(0, 900, push()), (1, 0, push(at_s=60)), (0, 901, push(at_s=30))])
    seen.take([(0, 900, push())])
    (client,) = seen.snapshot()
    assert (client.partition, client.pushes, client.latest.received_at) == (1, 2, NOW + 60 * SECOND)
    seen.keep([1])
    assert states(seen) == {"a": "live"}


def test_without_an_interval_in_its_records_the_time_between_its_pushes_stands_in(seen: SeenClients) -> None:
    seen.take([(0, 0, push(push_interval_ms=None))])
    seen.read_to_end([0], NOW + 400 * SECOND)
    assert states(seen) == {"a": "live"}, "five minutes until its second push"
    seen.take([(0, 1, push(at_s=400, push_interval_ms=None)), (0, 2, push(at_s=430, push_interval_ms=None))])
    seen.read_to_end([0], NOW + 480 * SECOND)
    assert states(seen) == {"a": "late"}, "30 s are its interval"
    assert seen.snapshot()[0].row(0).push_interval_ms is None, "which it was not told"


def test_clients_of_partitions_that_another_process_reads_are_dropped(seen: SeenClients, clock: MockTime) -> None:
    seen.take([(0, 0, push("a")), (1, 0, push("b"))])
    seen.keep([0, 1])
    assert len(seen.snapshot()) == 2
    seen.keep([1])
    assert states(seen) == {"b": "live"}
    seen.take([(0, 1, push("late batch"))])
    assert states(seen) == {"b": "live"}
    assert seen.tidy() == {"live": 1}
    clock.sleep(KEPT_UNASSIGNED_MS)
    seen.keep([1])
    seen.keep([0, 1])
    assert states(seen) == {"b": "live"}


def test_an_id_under_two_principals_is_two_clients(seen: SeenClients) -> None:
    seen.take([(0, 0, push()), (0, 1, push(principal="User:other"))])
    assert len(seen.snapshot()) == 2


def test_the_register_is_bounded_and_holds_no_payload() -> None:
    seen = SeenClients(100)
    seen.take([(0, 0, push("old"))])
    seen.take((0, offset, push(f"c{offset}")) for offset in range(1, 100))
    seen.take([(0, 100, push("old", at_s=1))])
    seen.take((0, offset, push(f"c{offset}")) for offset in range(101, 300))
    assert (len(seen.snapshot()), seen.evicted) == (100, 199)
    assert "old" not in states(seen)
    assert all(sys.getsizeof(each.latest.metrics) < 100 for each in seen.snapshot())


def test_those_of_long_ago_are_dropped_and_the_others_counted(seen: SeenClients) -> None:
    seen.take([(0, 0, push("killed")), (0, 1, push("closed", terminating=True))])
    hour_s, day_s = ENDED_SHOWN_MS // 1_000, VANISHED_SHOWN_MS // 1_000
    seen.take([(0, 2, push("live", at_s=hour_s - 1))])
    assert seen.tidy() == {"vanished": 1, "ended": 1, "live": 1}
    seen.read_to_end([0], NOW + hour_s * SECOND)
    assert seen.tidy() == {"vanished": 1, "live": 1}
    seen.read_to_end([0], NOW + day_s * SECOND)
    assert seen.tidy() == {"vanished": 1}
    assert states(seen) == {"live": "vanished"}


def test_a_partition_is_read_to_its_end_when_nothing_before_it_waits() -> None:
    shares = Shares("otlp")
    shares.begin([0, 1, 2])
    shares.starts_at(0, 5)
    shares.want(1, 1)
    ends, beginnings = {0: 5, 1: 3, 2: 7, 9: 1}, {0: 0, 1: 3, 2: 0, 9: 0}
    assert shares.read_before(ends, beginnings) == [0, 1], "partition 1 is empty, 2 is unread, 9 is not ours"
    message = topic_message(0, 5)
    shares.add(message)
    assert shares.read_before({**ends, 0: 6}, beginnings) == [1], "what was fetched waits to be taken"
    shares.take()
    assert shares.read_before({**ends, 0: 6}, beginnings) == [0, 1]
    assert shares.read_before({**ends, 0: 7}, beginnings) == [1]


def test_an_outage_in_which_all_partitions_are_taken_away_costs_no_vanished_client(
    seen: SeenClients, clock: MockTime
) -> None:
    seen.take([(0, 0, push("killed")), (0, 1, push("b", at_s=3_600))])
    before = states(seen)
    seen.keep([])
    assert states(seen) == {}
    clock.sleep(KEPT_UNASSIGNED_MS - 1)
    seen.keep([])
    seen.keep([0])
    assert states(seen) == before == {"killed": "vanished", "b": "live"}


def test_time_in_which_another_process_read_the_partition_makes_no_client_late(
    seen: SeenClients, clock: MockTime
) -> None:
    seen.take([(0, 0, push()), (0, 1, push("b"))])
    for _ in range(2):
        seen.keep([])
        clock.sleep(300_000)
        seen.keep([0])
    seen.read_to_end([0], NOW + 600 * SECOND)
    assert states(seen) == {"a": "live", "b": "live"}
    seen.take([(0, 2, push(at_s=610))])
    seen.read_to_end([0], NOW + 800 * SECOND)
    assert states(seen) == {"a": "vanished", "b": "vanished"}


def test_a_broker_whose_clock_is_days_ahead_removes_no_other_client(seen: SeenClients, clock: MockTime) -> None:
    now_s = (clock.microseconds() - NOW) // SECOND
    seen.take([(0, 0, push("a", at_s=now_s)), (0, 1, push("wrong", at_s=now_s + 2 * 86_400))])
    assert seen.tidy() == {"live": 2}
    clock.sleep(200_000)
    seen.read_to_end([0], clock.microseconds())
    assert states(seen) == {"a": "vanished", "wrong": "live"}


def test_two_senders_of_one_id_are_two_clients(seen: SeenClients) -> None:
    others: tuple[dict[str, Any], ...] = (
        {"client_id": "b"},
        {"client_source_address": "10.0.0.2"},
        {"client_software_version": "9"},
    )
    seen.take([(0, 0, push()), *((0, at, push(**fields)) for at, fields in enumerate(others, 1))])
    seen.take([(0, 9, push(at_s=1)), (0, 10, push(at_s=1, client_software_version="9"))])
    assert sorted(each.pushes for each in seen.snapshot()) == [1, 1, 2, 2]
    seen.read_to_end([0], NOW + VANISHED_SHOWN_MS * 2_000)
    seen.tidy()
    assert seen.snapshot() == []


def test_a_push_on_a_connection_without_software_is_of_the_client_that_named_it(seen: SeenClients) -> None:
    unnamed: dict[str, Any] = {"client_software_name": "unknown", "client_software_version": "unknown"}
    for client, first, second in (("a", {}, unnamed), ("b", unnamed, {})):
        seen.take([(0, 0, push(client, **first)), (0, 1, push(client, at_s=1, **second))])
    assert [(each.pushes, each.client_software_name) for each in seen.snapshot()] == [(2, "librdkafka")] * 2


def test_a_client_whose_payloads_are_malformed_is_listed_with_the_reason(clock: MockTime) -> None:
    seen = SeenClients(100, clock, malformed=MalformedPushes())
    damaged = [(0, 1, push(at_s=1, metrics=with_rack(LATIN_1))), (0, 2, push(at_s=2, metrics=with_rack(LATIN_1)))]
    for _ in range(2):  # as two exporters read them
        seen.take([(0, 0, push(metrics=with_rack(b"r"))), *damaged, (0, 3, push("b", at_s=3, metrics=b""))])
    rows = {each.client_id: each.row(NOW) for each in seen.snapshot()}
    assert (rows["a"].pushes, rows["a"].malformed, rows["a"].malformed_reason) == (3, 2, "invalid_utf8")
    assert rows["a"].malformed_at == NOW + 2 * SECOND
    assert REPLACED in str(rows["a"].malformed_detail)
    assert (rows["b"].malformed, rows["b"].malformed_reason) == (0, None)


def test_the_log_names_a_client_with_malformed_payloads_once_an_hour_as_a_listener_does(clock: MockTime) -> None:
    seen = SeenClients(100, clock, malformed=MalformedPushes())
    with capture_logs() as logs:
        for number in range(60):
            for _ in range(2):  # as two exporters read them
                seen.take([(0, number, push(at_s=60 * number, metrics=with_rack(LATIN_1)))])
            clock.sleep(LOG_INTERVAL_MS // 60)
    assert [(each["event"], each["client_id"], each["reason"], each["occurrences"]) for each in logs] == [
        ("telemetry.payload_malformed", "a", "invalid_utf8", 1)
    ]
    assert logs[0]["client_address"] == push().client_source_address
    with capture_logs() as logs:
        seen.take([(0, 60, push(at_s=3_600, metrics=with_rack(LATIN_1)))])
    assert [each["occurrences"] for each in logs] == [60]


def test_a_process_that_only_shows_clients_logs_no_line(clock: MockTime) -> None:
    seen = SeenClients(100, clock, malformed=MalformedPushes(is_logged=False))
    with capture_logs() as logs:
        seen.take([(0, 0, push(metrics=with_rack(LATIN_1)))])
    assert logs == []
    assert [each.row(NOW).malformed for each in seen.snapshot()] == [1]
