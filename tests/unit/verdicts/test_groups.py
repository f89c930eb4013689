"""Verdicts about consumer groups and their members."""

from typing import Any

import pytest
from unit.verdicts.fleets import NOON_US, Judged, Row, client
from unit.verdicts.test_life_cycle import MINUTE_US, known


def member(number: int = 1, **columns: Any) -> Row:
    own = {"group_id": "billing", "assigned_partitions": 3.0, "records_consumed": 3000.0, "lag_records": 50.0}
    return client("bill", f"bill-{number}", **own | columns)


def quiet(_: int) -> list[Row]:
    return [member(number, rebalances=0.0) for number in range(4)]


def test_a_group_that_rebalances_all_the_time_is_a_rebalance_storm() -> None:
    judged = Judged().windows(3, quiet)
    judged.windows(6, lambda _: [member(number, rebalances=2.0) for number in range(4)])
    row = judged.only()
    assert (row["verdict"], row["subject_kind"], row["subject"]) == ("rebalance-storm", "group", "billing")
    assert "group billing rebalanced 12 times in an hour (limit 6 times)" in row["why"]
    assert row["instance_count"] == 4
    assert judged.windows(12, quiet).only()["state"] == "cleared"


def test_one_that_only_sends_times_is_judged_by_them() -> None:
    busy = [member(dialect="librdkafka", rebalance_latency_total_ms=60_000.0)]
    judged = Judged().windows(3, quiet).windows(8, lambda _: busy)
    assert "spent 13 % of an hour rebalancing (limit 5 %)" in judged.only()["why"]


@pytest.mark.slow
@pytest.mark.parametrize("window_s", [60, 300])
@pytest.mark.parametrize(("busy_s", "is_found"), [(34.0, True), (12.0, False)])
def test_time_spent_on_rebalances_is_that_of_a_member_whatever_the_window(
    window_s: int, busy_s: float, is_found: bool
) -> None:
    """Two members push every five minutes, in different minutes, how long they rebalanced since: 11 % of the time, or
    4 % each.
    """

    def rows(number: int) -> list[Row]:
        minutes = range(number * window_s // 60, (number + 1) * window_s // 60)
        busy = {"pushes": 1, "push_interval_ms": 300_000, "rebalance_latency_total_ms": busy_s * 1000}
        found = [member(at, **busy) for at in (0, 3) for each in minutes if each % 5 == at]
        return [*found, *(client(f"other-{at}") for at in range(3))]

    judged = Judged(window_s=window_s).windows(90 * 60 // window_s, rows)
    assert [found[:2] for found in judged.found] == ([("rebalance-storm", "billing")] if is_found else [])


@pytest.mark.slow
def test_a_rebalance_between_two_windows_is_not_counted_in_both() -> None:
    """Twice each 25 minutes, at most six within an hour: some members see one of them in the next window."""

    def seen(number: int) -> list[Row]:
        by = {0: (2.0, 1.0), 1: (0.0, 1.0)}.get(number % 5, (0.0, 0.0))
        return [member(at, rebalances=by[at > 4]) for at in range(8)]

    assert Judged().windows(3, quiet).windows(30, seen).found == []


def test_a_rebalance_that_half_of_the_members_report_in_the_next_window_counts_once() -> None:
    """Two each 20 minutes, six an hour: two members report them in one window, two in the next."""

    def seen(number: int) -> list[Row]:
        return [member(at, rebalances=2.0 * (number % 4 == at // 2)) for at in range(4)]

    assert Judged().windows(3, quiet).windows(24, seen).found == []


def test_a_rolling_restart_of_the_members_is_none() -> None:
    def restart(number: int) -> list[Row]:
        return [member(at + number, rebalances=2.0) for at in range(4)]

    assert Judged().windows(12, restart).found == []


def test_a_lag_that_grows_more_than_it_is_read_down_is_lagging() -> None:
    judged = Judged().windows(3, quiet)
    judged.windows(6, lambda number: [member(1, lag_records=50.0 + 2000 * (number - 2)), member(2)])
    row = judged.only()
    assert (row["verdict"], row["subject"]) == ("lagging", "billing")
    assert "grew by 2,000 records in one window to 12,100, while it read 6,000" in row["why"]


def test_a_lag_that_stays_or_is_read_down_or_rises_little_is_none() -> None:
    judged = Judged().windows(3, quiet).windows(2, lambda number: [member(lag_records=1e5 * number)])
    judged.windows(8, lambda number: [member(lag_records=5e5 - 1e4 * number)])
    assert judged.windows(8, lambda number: [member(lag_records=4e5 + 20 * number)]).found == []


def test_a_group_that_holds_partitions_and_reads_nothing_is_stalled() -> None:
    judged = Judged().windows(3, quiet)
    row = judged.windows(4, lambda _: [member(records_consumed=0.0, commits=0.0, lag_records=700.0)]).only()
    assert row["verdict"] == "stalled"
    assert "nothing from its 3 partitions, while 700 records wait" in row["why"]


def test_a_group_with_nothing_to_read_is_not_stalled() -> None:
    assert Judged().windows(6, lambda _: [member(records_consumed=0.0, lag_records=0.0)]).found == []


PAUSED: Row = {"records_consumed": 0.0, "commits": 60.0, "lag_records": 0.0, "fetch_rate_per_s": 0.0}
"""Of a Java consumer with default settings and paused partitions: it commits, and its lag stays."""


def test_a_group_with_paused_partitions_is_stalled_though_it_commits_where_it_stands() -> None:
    judged = Judged().windows(3, quiet)
    row = judged.windows(4, lambda _: [member(at, **PAUSED, last_poll_seconds_ago=0.0) for at in (1, 2)]).only()
    assert (row["verdict"], row["subject"], row["instance_count"]) == ("stalled", "billing", 2)
    assert row["why"].startswith("group billing polls but fetches nothing from its 6 partitions")
    reads = {"records_consumed": 3000.0, "fetch_rate_per_s": 2.0, "last_poll_seconds_ago": 0.0}
    assert judged.windows(4, lambda _: [member(at, **reads) for at in (1, 2)]).only()["state"] == "cleared"


@pytest.mark.parametrize(
    "columns",
    [
        {"fetch_rate_per_s": 2.0, "last_poll_seconds_ago": 0.0},  # nothing is written for it
        {"fetch_rate_per_s": None, "last_poll_seconds_ago": 0.0},
        {"commits": 0.0, "last_poll_seconds_ago": 240.0},  # it works on what it has
        {"assigned_partitions": 0.0, "last_poll_seconds_ago": 0.0},
        {"records_consumed": 500.0, "last_poll_seconds_ago": 0.0},  # of what it had fetched before
    ],
)
def test_consumers_that_fetch_or_have_work_or_no_partition_are_not_stalled(columns: Row) -> None:
    assert Judged().windows(6, lambda _: [member(**PAUSED | columns)]).found == []


def test_consumers_that_work_off_one_large_fetch_are_not_stalled() -> None:
    """For 220 s they poll, fetch and consume nothing, since a fetch counts at its end; they have no time to spare."""
    busy = PAUSED | {"poll_idle_ratio_avg": 0.03, "last_poll_seconds_ago": 0.0}
    judged = Judged().windows(3, quiet)
    judged.windows(6, lambda number: [member(**busy | {"lag_records": 60_000.0 - 4_000 * number})])
    assert [verdict for verdict, _, _ in judged.found] == ["slow-processing"]


READS: Row = {"records_consumed": 3000.0, "commits": 1.0}
NOTHING: Row = {"records_consumed": 0.0, "commits": 0.0}


@pytest.mark.slow
def test_a_group_that_polls_rarely_is_stalled_once_it_stops() -> None:
    """Every six minutes, in windows of one: in five of six it reads and commits nothing while records wait."""

    def rows(number: int) -> list[Row]:
        return [member(lag_records=700.0, **(READS if number % 6 == 0 else NOTHING))]

    judged = Judged(window_s=60).windows(61, rows)
    assert judged.found == []
    stopped = [member(lag_records=700.0, **NOTHING)]
    assert judged.windows(10, lambda _: stopped).found == []
    judged.windows(1, lambda _: stopped)
    assert judged.only()["verdict"] == "stalled"


def test_a_member_without_a_partition_for_half_an_hour_is_idle() -> None:
    """From its first push on: a third member of a group with two partitions has none from the beginning."""
    judged = Judged().windows(6, lambda _: [member(1), member(2, assigned_partitions=0.0, records_consumed=0.0)])
    assert judged.found == []
    judged.windows(1, lambda _: [member(1), member(2, assigned_partitions=0.0, records_consumed=0.0)])
    assert judged.windows(1, quiet).found == [("idle-consumer", "bill", "open")]
    assert judged.rows[0]["instances"] == ["bill-2"]


def test_a_consumer_without_a_group_is_not_idle() -> None:
    assert Judged().windows(12, lambda _: [member(assigned_partitions=0.0, group_id=None)]).found == []


def test_one_member_with_most_of_the_work_makes_an_uneven_group() -> None:
    def uneven(_: int) -> list[Row]:
        return [member(number, records_consumed=40_000.0 if number == 2 else 6000.0) for number in range(5)]

    row = Judged().windows(6, uneven).only()
    assert (row["verdict"], row["instances"]) == ("uneven-group", ["bill-2"])
    assert "one member of group billing reads 133 records per s (median of 5: 20 records per s)" in row["why"]


@pytest.mark.slow
@pytest.mark.parametrize(("window_s", "lost"), [(300, 0), (60, 0), (60, 4)])
def test_members_that_push_in_other_windows_have_a_part_in_the_median(window_s: int, lost: int) -> None:
    """Five members push every five minutes, each in a minute of its own, or one of them four of five times."""

    def rows(number: int) -> list[Row]:
        minutes = range(number * window_s // 60, (number + 1) * window_s // 60)
        consumed = [40_000.0 if minute % 5 == 2 else 6000.0 for minute in minutes]
        return [
            member(minute % 5, records_consumed=each, push_interval_ms=300_000, pushes=1)
            for minute, each in zip(minutes, consumed, strict=True)
            if not lost or minute % 25 != 5 * lost + 2
        ] + [client("other", push_interval_ms=60_000)]

    judged = Judged(window_s=window_s).windows(70 * 60 // window_s, rows)
    assert [found[:2] for found in judged.found] == [("uneven-group", "billing")]
    assert judged.only()["instances"] == ["bill-2"]


def test_a_small_group_or_another_member_each_time_is_even() -> None:
    def small(_: int) -> list[Row]:
        return [member(number, records_consumed=40_000.0 if number == 2 else 6000.0) for number in range(3)]

    def turns(at: int) -> list[Row]:
        return [member(number, records_consumed=40_000.0 if number == at % 5 else 6000.0) for number in range(5)]

    assert Judged().windows(8, small).found == []
    assert Judged().windows(8, turns).found == []


@pytest.mark.parametrize("consumed", [40_000.0, 12_000.0])
def test_a_member_with_most_of_the_work_is_no_slow_application(consumed: float) -> None:
    """Whether it keeps up, and reads six times as much as the others, or has a lag that grows."""

    def rows(at: int) -> list[Row]:
        hot = {"records_consumed": consumed, "poll_idle_ratio_avg": 0.01, "lag_records": 5000.0 * at}
        return [member(number, **(hot if number == 2 else {"records_consumed": 6000.0})) for number in range(5)]

    found = {(row["verdict"], row["caused_by"]) for row in Judged().windows(8, rows).rows}
    assert found == {("uneven-group", None), ("lagging", "uneven-group:group:billing")}

    def in_turn(minute: int) -> list[Row]:
        return [rows(minute // 5)[minute % 5] | {"push_interval_ms": 300_000, "pushes": 1}, client("other")]

    assert "slow-processing" not in {row["verdict"] for row in Judged(window_s=60).windows(60, in_turn).rows}


def test_a_group_that_reads_down_its_lag_is_not_slow_where_a_push_was_lost() -> None:
    """What it read since is unknown in every third window."""

    def rows(at: int) -> list[Row]:
        consumed = None if at % 3 == 2 else 30_000.0
        return [member(records_consumed=consumed, lag_records=900_000.0 - 5000 * at, poll_idle_ratio_avg=0.01)]

    assert Judged().windows(20, rows).found == []


def test_a_member_that_crashes_in_a_loop_does_not_pay_for_the_rebalances_that_it_makes() -> None:
    """Each of its lives makes two, which are taken off for members that come in a rolling restart."""
    judged = Judged()
    judged.clients = [known(f"job-{at}", 5 * at, 5 * at + 3, group_id="billing") for at in range(14)]

    def rows(number: int) -> list[Row]:
        seen_at = int(NOON_US + (5 * number + 3) * MINUTE_US)
        members = [client(f"worker-{each}", group_id="billing", rebalances=2.0) for each in "ab"]
        return [*members, client("job", f"job-{number}", dialect="librdkafka", group_id="billing", seen_at=seen_at)]

    causes = {row["verdict"]: row["caused_by"] for row in judged.windows(14, rows).rows}
    assert causes == {"crash-loop": None, "rebalance-storm": "crash-loop:client:job"}
