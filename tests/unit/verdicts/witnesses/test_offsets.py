"""Verdicts about groups whose offsets are sampled, with telemetry of their members and without."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from unit.verdicts.fleets import NOON_US, Judged, Row, client

from fleetgauge.verdicts.coverage import coverage, sampled_groups
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.witnesses.offsets import TRENDS, lags

MINUTE_US = 60_000_000
WINDOWS = 8


def sampled(
    judged: Judged,
    offsets: Callable[[int, int], tuple[int | None, int | None]],
    *,
    partitions: int = 3,
    members: int | None = None,
    group: str = "billing",
    **columns: Any,
) -> Judged:
    """Samples once a minute: of (minute, partition) the committed and the end offset; `members` share partitions."""
    count = partitions if members is None else members
    for minute in range(WINDOWS * 5):
        common = {
            "sampled_at": NOON_US + minute * MINUTE_US + 7,
            "cluster_id": "c",
            "group_id": group,
            "state": "STABLE",
        }
        own = [common | _member(group, number) for number in range(count)]
        for partition in range(partitions):
            committed, end = offsets(minute, partition)
            place = {"topic": "t", "partition": partition, "committed_offset": committed, "end_offset": end}
            judged.samples.append((own[partition % count] if count else common | {"state": "EMPTY"}) | place | columns)
        judged.samples += [member | columns for member in own[partitions:]]
    return judged


def _member(group: str, number: int) -> Row:
    return {"member_id": f"{group}-member-{number}", "client_id": f"{group}-{number}"}


def none(_: int) -> Iterable[Row]:
    return ()


def moving(minute: int, _: int) -> tuple[int, int]:
    return 1000 * minute, 1000 * minute + 40 + minute % 3


def growing(minute: int, _: int) -> tuple[int, int]:
    return 1000 * minute, 1100 * minute + 50


def standing(minute: int, _: int) -> tuple[int, int]:
    return 5000, 5000 + 100 * minute + 1


def test_a_group_without_telemetry_whose_lag_grows_is_lagging() -> None:
    judged = sampled(Judged(), growing).windows(WINDOWS, none)
    row = judged.only()
    assert (row["verdict"], row["subject"], row["judged_by"]) == ("lagging", "billing", ["group-offsets"])
    assert "the lag of group billing grew by 2,700 records in 9 minutes to 11,850," in row["why"]
    assert {each["metric"] for each in row["evidence"]} == {"group_offsets.lag_records"}
    assert {each["trend"] for each in judged.trends[2:]} == {"growing"}


@pytest.mark.parametrize(("offsets", "is_slow"), [(growing, True), (moving, False)])
def test_calls_of_librdkafka_s_poll_that_seldom_wait_are_slow_beside_a_lag_that_grows(
    offsets: Callable[[int, int], tuple[int, int]], is_slow: bool
) -> None:
    def rows(_: int) -> list[Row]:
        return [client("billing-0", dialect="librdkafka", group_id="billing", poll_idle_ratio_avg=0.05)]

    found = {row["verdict"]: row for row in sampled(Judged(), offsets).windows(WINDOWS, rows).rows}
    assert set(found) == ({"slow-processing", "lagging"} if is_slow else set())
    if is_slow:
        assert found["slow-processing"]["judged_by"] == ["group-offsets", "telemetry"]


def test_a_lag_of_a_million_that_is_read_down_is_no_finding() -> None:
    judged = sampled(Judged(), lambda minute, _: (3000 * minute, 10**6 + 1000 * minute)).windows(WINDOWS, none)
    assert judged.rows == []
    assert judged.trends[-1]["trend"] == "moving"


def test_a_group_that_commits_nothing_while_records_wait_is_stalled() -> None:
    judged = sampled(Judged(), standing).windows(WINDOWS, none)
    row = judged.only()
    assert (row["verdict"], row["group_id"], row["side"]) == ("stalled", "billing", "client")
    assert "commits nothing for 3 of its 3 partitions" in row["why"]


def test_one_partition_that_stalls_while_the_others_move_is_stalled() -> None:
    judged = sampled(Judged(), lambda *at: standing(*at) if at[1] == 1 else moving(*at)).windows(WINDOWS, none)
    found = {row["verdict"]: row for row in judged.rows}
    assert "commits nothing for 1 of its 3 partitions" in found["stalled"]["why"]
    assert found["lagging"]["caused_by"] == "stalled:group:billing"
    assert judged.trends[-1]["stalled_partitions"] == 1


def test_a_stopped_group_is_a_trend_and_no_verdict() -> None:
    """Batch jobs stop every day, and groups are left behind for good."""
    judged = sampled(Judged(), standing, members=0).windows(WINDOWS, none)
    assert judged.rows == []
    assert (judged.trends[-1]["trend"], judged.trends[-1]["members"]) == ("stopped", 0)


def test_a_rewound_group_is_neither_lagging_nor_stalled() -> None:
    def rewound(minute: int, _: int) -> tuple[int, int]:
        return (1000 * minute if minute < 22 else 100 * minute), 1000 * minute + 50

    judged = sampled(Judged(), rewound).windows(6, none)
    assert [each["trend"] for each in judged.trends][-2:] == ["rewound", "rewound"]
    assert judged.found == []


def test_a_topic_that_was_made_again_begins_again() -> None:
    def again(minute: int, _: int) -> tuple[int, int]:
        return (9000, 9000) if minute < 20 else (1000 * (minute - 20), 1000 * (minute - 20) + 9)

    judged = sampled(Judged(), again).windows(WINDOWS, none)
    assert judged.found == []
    assert "rewound" not in {each["trend"] for each in judged.trends}


def test_a_member_without_a_partition_is_idle_by_its_client_id() -> None:
    judged = sampled(Judged(), moving, partitions=2, members=3).windows(WINDOWS, none)
    row = judged.only()
    assert (row["verdict"], row["subject"], row["client_id"]) == ("idle-consumer", "billing-2", "billing-2")
    assert row["judged_by"] == ["group-offsets"]


def test_one_member_with_most_of_the_lag_makes_an_uneven_group() -> None:
    judged = sampled(
        Judged(), lambda minute, at: (1000 * minute, 1000 * minute + (90_000 if at == 2 else 50)), partitions=5
    )
    row = judged.windows(WINDOWS, none).only()
    assert (row["verdict"], row["subject"]) == ("uneven-group", "billing")
    assert "has a lag of 90,000 records (median of 5: 50 records)" in row["why"]


def members(number: int, **columns: Any) -> list[Row]:
    """Telemetry of the members that `sampled` makes; a lag that grows by 2,000 in each window."""
    own = {"group_id": "billing", "assigned_partitions": 1.0, "records_consumed": 5000.0, "lag_records": 2e3 * number}
    return [client(f"billing-{at}", f"instance-{at}", **own | columns) for at in range(3)]


def test_what_both_find_is_judged_by_both() -> None:
    row = sampled(Judged(), growing).windows(WINDOWS, members).only()
    assert row["judged_by"] == ["group-offsets", "telemetry"]
    assert row["instances"] == ["instance-0", "instance-1", "instance-2"]


def test_where_they_disagree_the_brokers_are_right() -> None:
    assert sampled(Judged(), moving).windows(WINDOWS, members).rows == []
    row = sampled(Judged(), growing).windows(WINDOWS, lambda number: members(0)).only()
    assert (row["verdict"], row["judged_by"]) == ("lagging", ["group-offsets"])


def test_an_idle_member_is_joined_with_its_telemetry_by_client_id() -> None:
    def rows(number: int) -> list[Row]:
        return [client("billing-2", "the-idle-one", group_id="billing", assigned_partitions=0.0, dialect="librdkafka")]

    row = sampled(Judged(), moving, partitions=2, members=3).windows(WINDOWS, rows).only()
    assert (row["instances"], row["judged_by"]) == (["the-idle-one"], ["group-offsets", "telemetry"])


def test_slow_processing_explains_a_lag_that_brokers_measure() -> None:
    def slow(number: int) -> list[Row]:
        own = {"group_id": "billing", "dialect": "librdkafka", "poll_idle_ratio_avg": 0.01}
        return [client(f"billing-{at}", f"instance-{at}", **own) for at in range(1)]

    def later(minute: int, at: int) -> tuple[int, int]:
        return 1000 * minute, growing(minute, at)[1] if minute > 15 else 1000 * minute + 50

    found = {row["verdict"]: row["caused_by"] for row in sampled(Judged(), later).windows(WINDOWS, slow).rows}
    assert found == {"slow-processing": None, "lagging": "slow-processing:client:billing-0"}


def test_windows_of_samples_alone_leave_silence_unjudged() -> None:
    """Nothing was delivered for a while, and brokers were sampled meanwhile."""
    judged = sampled(Judged(), moving).windows(3, members)
    judged.clients = []
    judged.windows(4, none)
    assert "silent" not in {row["verdict"] for row in judged.windows(1, members).rows}


def test_a_group_that_could_not_be_sampled_is_unknown_with_its_error() -> None:
    judged = sampled(Judged(), lambda *_: (None, None), error="GROUP_AUTHORIZATION_FAILED").windows(WINDOWS, none)
    assert judged.rows == []
    row = judged.trends[-1]
    assert (row["trend"], row["error"], row["lag_records"]) == ("unknown", "GROUP_AUTHORIZATION_FAILED", None)


def test_since_is_when_the_trend_began_also_over_runs_that_are_cut() -> None:
    judged = sampled(Judged(), lambda *at: moving(*at) if at[0] < 15 else standing(*at)).windows(5, none)
    judged.memory = Memory.of(judged.memory.parts())
    judged.windows(3, none)
    stalled = [each for each in judged.trends if each["trend"] == "stalled"]
    assert len(stalled) >= 3
    assert {each["since"] for each in stalled} == {stalled[0]["window_start"]}


def test_coverage_says_what_is_judged_by_samples() -> None:
    judged = sampled(Judged(), moving).windows(WINDOWS, lambda _: members(0, dialect="librdkafka", group_id="billing"))
    sampled(judged, moving, group="shipping")
    judged.clients = [
        {"cluster_id": "c", "group_id": each, "dialect": "librdkafka", "role": "consumer"}
        for each in ("billing", "other")
    ]
    rows = coverage(judged.client_table(), judged.memory).to_pylist()
    assert sampled_groups(judged.memory).keys() == {("c", "billing")}
    lagging = {(row["judged"], row["judged_by"], row["instances"]) for row in rows if row["verdict"] == "lagging"}
    assert lagging == {(True, "group-offsets", 1), (False, None, 1)}


def test_coverage_does_not_call_a_group_judged_that_has_no_member() -> None:
    judged = sampled(Judged(), standing, member_id=None).windows(WINDOWS, none)
    assert judged.trends[-1]["trend"] == "stopped"
    rows = coverage(judged.client_table(), judged.memory).to_pylist()
    lagging = [(row["judged"], row["why_not"]) for row in rows if row["verdict"] == "lagging"]
    assert lagging == [(False, "the group is stopped: records wait, and it has no member")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["</script>", "a\x1fb", "\u202eevil", "x" * 10_000, "new\nline", "\x1b[31m"])
def test_a_group_may_be_called_anything(name: str) -> None:
    judged = sampled(Judged(), growing, group=name).windows(WINDOWS, none)
    assert [row["verdict"] for row in judged.rows] == ["lagging"]
    assert len(judged.trends) == WINDOWS


def test_gaps_in_samples_are_no_trend() -> None:
    nan = np.nan
    times = np.arange(5.0)[None, :] * 6e7
    found = lags(times, np.array([[1, nan, nan, 1, 1.0]]), np.array([[5, 6, 7, nan, 9.0]]), np.array([True]))
    assert TRENDS[found.trend[0]] == "unknown"
    assert (found.lag[0], found.committed[0]) == (8, 0)


def unsampled(judged: Judged, error: str = "GROUP_AUTHORIZATION_FAILED") -> Judged:
    """A row a minute that says why the group could not be sampled."""
    row = {"cluster_id": "c", "group_id": "billing", "error": error}
    judged.samples += [row | {"sampled_at": NOON_US + minute * MINUTE_US} for minute in range(13 * 5)]
    return judged


def test_a_group_that_may_not_be_sampled_is_judged_by_its_telemetry() -> None:
    def idle(number: int) -> list[Row]:
        own = {"group_id": "billing", "dialect": "librdkafka"}
        return [client(f"billing-{at}", f"i-{at}", assigned_partitions=float(at < 2), **own) for at in range(3)]

    row = unsampled(Judged()).windows(13, idle).only()
    assert (row["verdict"], row["subject"], row["judged_by"]) == ("idle-consumer", "billing-2", ["telemetry"])


def test_a_broker_that_misses_a_round_does_not_hide_the_partitions_that_it_leads() -> None:
    def found(minute: int, partition: int) -> tuple[int | None, int | None]:
        if partition == 20:  # of another broker: quiet, and read to its end
            return 100, 100
        return 1000 * minute, None if minute % 9 == 4 else 1500 * minute

    judged = sampled(Judged(), found, partitions=21).windows(WINDOWS, none)
    assert "lagging" in {row["verdict"] for row in judged.rows}
    last = judged.trends[-1]
    assert last["committed_per_s"] == pytest.approx(20 * 1000 / 60, rel=0.01)
    assert last["written_per_s"] == pytest.approx(20 * 1500 / 60, rel=0.01)


def test_a_round_without_members_leaves_those_of_the_round_before() -> None:
    """The coordinator did not describe the group in time, and answered for its offsets."""
    judged = sampled(Judged(), standing)
    for row in judged.samples:
        if (row["sampled_at"] - NOON_US) // MINUTE_US % 5 == 4:
            row |= {"state": None, "member_id": None, "client_id": None, "error": "TIMED_OUT"}
    row = judged.windows(WINDOWS, none).only()
    assert row["verdict"] == "stalled"
    assert judged.trends[-1]["members"] == 3


@pytest.mark.slow
def test_a_verdict_by_telemetry_stays_while_only_samples_come() -> None:
    judged = sampled(Judged(), moving)
    judged.windows(6, lambda _: [client("shop", record_errors=5.0)])
    assert "record-errors" in {row["verdict"] for row in judged.rows}
    for hours in (1, 2):
        judged.samples += [row | {"sampled_at": row["sampled_at"] + 40 * hours * MINUTE_US} for row in judged.samples]
    judged.windows(18, none)
    (row,) = [row for row in judged.rows if row["verdict"] == "record-errors"]
    assert row["state"] == "open"
