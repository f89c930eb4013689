"""Verdicts about clients whose traffic passes gateways, with telemetry of them and without."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from unit.verdicts.fleets import NOON_US, Judged, Row, client

from fleetgauge.verdicts.coverage import coverage
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.witnesses.traffic import covered_us

MINUTE_US = 60_000_000
WINDOWS = 8
PRODUCE, FETCH, OFFSET_COMMIT, JOIN, SYNC, API_VERSIONS, HEARTBEAT = 0, 1, 8, 11, 14, 18, 68


def none(_: int) -> Iterable[Row]:
    return ()


def traffic(minute: int, api_key: int = PRODUCE, **columns: Any) -> Row:
    """A row of an interval of a minute: 10 requests a second of 10 compressed records."""
    return {
        "window_start": NOON_US + minute * MINUTE_US + 7, "window_ms": 60_000, "cluster_id": "c", "principal": "alice",
        "client_id": "orders", "group_id": None, "api_key": api_key, "api_version": 9, "requests": 600,
        "request_bytes": 6_000_000, "response_bytes": 60_000, "broker_time_ms": 3_000.0, "throttled_requests": 0,
        "throttle_time_ms": 0, "batches": 600, "records": 6_000, "record_bytes": 5_900_000,
        "compressions": [("zstd", 600)], "errors": [], **columns,
    }  # fmt: skip


def judged(
    *rows: Callable[[int], Row], telemetry: Callable[[int], Iterable[Row]] = none, windows: int = WINDOWS
) -> Judged:
    """Windows whose minutes have these rows."""
    found = Judged()
    found.traffic = [row(minute) for minute in range(windows * 5) for row in rows]
    return found.windows(windows, telemetry)


SMALL = {"requests": 6_000, "batches": 6_000, "records": 6_600, "request_bytes": 12_000_000}
PLAIN = {"record_bytes": 90_000_000, "compressions": [("none", 600)]}
TINY = {"api_key": FETCH, "requests": 6_000, "response_bytes": 1_200_000, "batches": 0}
THROTTLED = {"throttled_requests": 500, "throttle_time_ms": 30_000}
FAILED = {"errors": [(6, 60)]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "verdict", "why", "confidence"),
    [
        (SMALL, "small-batches", "orders sends 100 produce requests per second of 1.1 records each", 0.6),
        ({**SMALL, "records": 60_000, "request_bytes": 3_000_000}, "small-batches", "of 500 bytes each", 0.6),
        (
            PLAIN,
            "uncompressed",
            "orders sends 1,500,000 bytes per s (limit 1,000,000 bytes per s) without compression",
            0.6,
        ),
        (TINY, "tiny-fetches", "orders sends 100 fetches per second through a gateway that return 200 bytes each", 0.6),
        (
            THROTTLED,
            "throttled",
            "throttles orders (produce quota) 50 % of the time, 60 ms per throttled request",
            0.95,
        ),
        (
            {**THROTTLED, "api_key": FETCH},
            "throttled",
            "throttles orders (fetch quota) 50 % of the time, 60 ms per throttled request",
            0.95,
        ),
        (FAILED, "record-errors", "brokers answer 10 % of the batches of orders with an error", 0.95),
    ],
)
def test_a_client_without_telemetry_is_judged_by_its_traffic(
    columns: Row, verdict: str, why: str, confidence: float
) -> None:
    row = judged(lambda minute: traffic(minute, **columns)).only()
    assert (row["verdict"], row["subject"], row["judged_by"]) == (verdict, "orders", ["gateway"])
    assert why in row["why"]
    assert (row["principal"], row["client_id"], row["instances"]) == ("User:alice", "orders", [])
    assert row["confidence"] == pytest.approx(confidence, abs=0.02)
    assert {each["metric"].split(".")[0] for each in row["evidence"]} == {"traffic"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "columns",
    [
        {},
        {**SMALL, "requests": 2_999},  # of 50 a second
        {**SMALL, "records": 60_000},
        {**PLAIN, "record_bytes": 60_000_000},
        {**PLAIN, "compressions": [("none", 599), ("lz4", 1)]},
        {**TINY, "response_bytes": 6_200_000},
        {**TINY, "requests": 2_999},
        {**THROTTLED, "throttled_requests": 299},
        {**THROTTLED, "throttle_time_ms": 5_900},  # of a minute less than a tenth
        {**THROTTLED, "broker_time_ms": 300_000.0},  # most of what a request takes is the broker's
        {"errors": [(6, 30)]},
        {"errors": [(46, 600)]},  # DUPLICATE_SEQUENCE_NUMBER: the broker has these batches
        {**SMALL, "client_id": "<others>"},
        {**SMALL, "client_id": ""},
    ],
)
def test_what_is_as_it_should_be_is_no_finding(columns: Row) -> None:
    assert judged(lambda minute: traffic(minute, **columns)).rows == []


def test_a_client_with_telemetry_is_judged_by_it() -> None:
    def fine(_: int) -> list[Row]:
        own: Row = {"records_per_request_avg": 100.0, "request_size_avg_bytes": 1e5}
        return [client(request_rate_per_s=100.0, **own)]

    assert judged(lambda minute: traffic(minute, **SMALL), telemetry=fine).rows == []


def test_what_both_find_is_judged_by_both_and_said_by_telemetry() -> None:
    def small(_: int) -> list[Row]:
        return [client(request_rate_per_s=100.0, records_per_request_avg=1.0, request_size_avg_bytes=2000.0)]

    row = judged(lambda minute: traffic(minute, **SMALL), telemetry=small).only()
    alone = Judged().windows(WINDOWS, small).only()
    assert row["judged_by"] == ["telemetry", "gateway"]
    assert {**row, "judged_by": None} == {**alone, "judged_by": None}


def test_what_a_library_does_not_send_is_judged_by_traffic_for_each_of_its_instances() -> None:
    def known(count: int) -> Callable[[int], list[Row]]:
        return lambda _: [client(instance=f"i-{at}", dialect="librdkafka") for at in range(count)]

    row = judged(lambda minute: traffic(minute, **SMALL), telemetry=known(1)).only()
    assert (row["verdict"], row["judged_by"]) == ("small-batches", ["gateway"])
    assert row["confidence"] == pytest.approx(0.95, abs=0.02)
    assert judged(lambda minute: traffic(minute, **SMALL), telemetry=known(3)).rows == []


def test_a_throttled_producer_whose_pushes_do_not_come_is_found() -> None:
    def until_then(number: int) -> list[Row]:
        fine: Row = {"produce_throttle_avg_ms": 0.0, "request_rate_per_s": 10.0}
        return [client(**(fine if number < 2 else {}))]

    row = judged(lambda minute: traffic(minute, **THROTTLED), telemetry=until_then).only()
    assert (row["verdict"], row["judged_by"]) == ("throttled", ["gateway"])
    assert row["opened_at"].minute == 10


def test_principals_with_one_client_id_are_judged_apart() -> None:
    def of(name: str, requests: int) -> Callable[[int], Row]:
        return lambda minute: traffic(minute, principal=name, **{**SMALL, "requests": requests, "batches": requests})

    assert judged(of("alice", 2_000), of("bob", 2_000)).rows == []
    assert judged(of("alice", 2_000), of("bob", 6_000)).only()["principal"] == "User:bob"


def test_a_verdict_clears_when_the_traffic_is_fine_again() -> None:
    row = judged(lambda minute: traffic(minute, **(SMALL if minute < 25 else {})), windows=12).only()
    assert (row["state"], row["cleared_at"].minute) == ("cleared", 25)


def test_a_short_interval_counts_for_as_long_as_it_was() -> None:
    found = Judged()
    found.traffic = [traffic(minute, **{**SMALL, "window_ms": 5_000}) for minute in range(0, 20, 5)]
    assert found.windows(4, none).rows == []


def members(
    minute: int, *, synced: bool, joined: int = 0, opened: int = 0, version: int = 9, group: str = "billing"
) -> list[Row]:
    """Rows of a consumer of a group; `joined` new members of it open so many connections."""
    own: Row = {"client_id": "billing-1", "batches": 0, "records": 0, "api_version": version}
    rows = [traffic(minute, OFFSET_COMMIT, group_id=group, **own)]
    if synced:
        errors = [(79, joined)] if joined and version >= 4 else []
        rows += [traffic(minute, JOIN, group_id=group, requests=3, **own | {"errors": errors})]
        rows += [traffic(minute, SYNC, group_id=group, requests=3, **own)]
    if opened:
        rows += [traffic(minute, API_VERSIONS, requests=opened, **own)]
    return rows


def group(rows: Callable[[int], list[Row]], windows: int = 12) -> Judged:
    found = Judged()
    found.traffic = [row for minute in range(windows * 5) for row in rows(minute)]
    return found.windows(windows, none)


def test_a_group_that_rebalances_again_and_again_is_a_storm() -> None:
    row = group(lambda minute: members(minute, synced=minute % 3 == 0)).only()
    assert (row["verdict"], row["subject"], row["judged_by"]) == ("rebalance-storm", "billing", ["gateway"])
    assert "group billing rebalanced" in row["why"]
    assert "in an hour (limit 6 times), counted by a gateway" in row["why"]
    assert (row["group_id"], row["principal"]) == ("billing", None)


@pytest.mark.slow
def test_members_that_were_cast_out_join_by_the_connections_that_they_have() -> None:
    """A member beyond max.poll.interval.ms is as new to the broker as one that was started."""
    assert group(lambda minute: members(minute, synced=minute % 3 == 0, joined=1)).found
    assert group(lambda minute: members(minute, synced=minute % 3 == 0, opened=3)).found


@pytest.mark.parametrize("version", [3, 9])
def test_a_rolling_restart_is_no_storm(version: int) -> None:
    def restart(minute: int) -> list[Row]:
        return members(minute, synced=minute % 2 == 0, joined=1, opened=3, version=version)

    assert group(restart).rows == []


def test_a_rebalance_of_two_intervals_is_one() -> None:
    """Twelve intervals of an hour, six rebalances."""
    assert group(lambda minute: members(minute, synced=minute % 10 < 2)).rows == []


def test_rebalances_of_the_consumer_protocol_are_not_judged() -> None:
    def both(minute: int) -> list[Row]:
        own: Row = {"client_id": "billing-1", "group_id": "billing"}
        return [*members(minute, synced=minute % 3 == 0), traffic(minute, HEARTBEAT, **own)]

    found = group(both)
    assert found.rows == []
    assert "rebalance-storm" not in judged_by_gateway(found)


def judged_by_gateway(found: Judged) -> set[str]:
    rows = coverage(found.client_table(), found.memory).to_pylist()
    return {row["verdict"] for row in rows if row["judged"] and row["judged_by"] == "gateway"}


def test_coverage_says_what_is_judged_by_traffic() -> None:
    found = judged(traffic, lambda minute: traffic(minute, FETCH, client_id="reader"))
    assert judged_by_gateway(found) == {"small-batches", "uncompressed", "record-errors", "throttled", "tiny-fetches"}
    rows = coverage(found.client_table(), found.memory).to_pylist()
    throttled = {(row["library"], row["role"], row["instances"]) for row in rows if row["verdict"] == "throttled"}
    assert throttled == {("no telemetry", "producer", 1), ("no telemetry", "consumer", 1)}
    assert "group-offsets" not in {source for row in rows for source in (row["judged_by"] or "").split(", ")}


def test_coverage_says_of_clients_with_telemetry_what_traffic_adds() -> None:
    found = judged(traffic, telemetry=lambda _: [client(dialect="librdkafka")])
    own: Row = {"cluster_id": "c", "dialect": "librdkafka", "role": "producer"}
    found.clients = [own | {"client_id": "orders"}, own | {"client_id": "elsewhere"}]
    rows = coverage(found.client_table(), found.memory).to_pylist()
    small = {(row["judged"], row["judged_by"], row["instances"]) for row in rows if row["verdict"] == "small-batches"}
    assert small == {(True, "gateway", 1), (False, None, 1)}
    assert "no telemetry" not in {row["library"] for row in rows}


def test_what_is_remembered_is_kept_as_it_is() -> None:
    found = judged(lambda minute: traffic(minute, **SMALL), windows=3)
    again = judged(lambda minute: traffic(minute, **SMALL), windows=3)
    again.memory = Memory.of(again.memory.parts())
    for each in (found, again):
        each.traffic = [traffic(minute, **SMALL) for minute in range(WINDOWS * 5)]
        each.windows(WINDOWS - 3, none)
    assert found.rows == again.rows
    assert found.memory.parts() == again.memory.parts()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["</script>", "a\x1fb", "\u202eevil", "x" * 10_000, "new\nline", "\x1b[31m"])
def test_a_client_may_be_called_anything(name: str) -> None:
    found = judged(lambda minute: traffic(minute, client_id=name, group_id=name, **SMALL))
    assert [row["verdict"] for row in found.rows] == ["small-batches"]
    assert coverage(found.client_table(), found.memory).num_rows


def test_intervals_of_several_gateways_count_once() -> None:
    code, starts = np.array([0, 0, 1]), np.array([0, 30, 5])
    assert covered_us(code, starts, starts + 60, 2).tolist() == [90, 60]
