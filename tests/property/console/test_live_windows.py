"""What the console makes of pushes as they come is what `fleet run` makes of them together."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fleet.console_fleet import GivenPushes

from fleetgauge.base.clock import MockTime
from fleetgauge.console.state.fleet import Fleet, FleetSettings
from fleetgauge.console.state.live import metric_names
from fleetgauge.console.state.windows import WINDOW_S, OpenWindows
from fleetgauge.fleet.arrow import Table, pa
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.pipeline.by_window import judged_of
from fleetgauge.fleet.silver.batch import points_of
from fleetgauge.fleet.silver.check import check
from fleetgauge.fleet.silver.live import LivePushes, bronze_of
from fleetgauge.fleet.silver.repeats import ORDER
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.testkit.simulate.request import Pathology
from fleetgauge.testkit.simulate.simulate import Fleet as Simulated
from fleetgauge.testkit.simulate.simulate import make_plan
from fleetgauge.testkit.simulate.stream import Stream
from fleetgauge.verdicts.window import COLUMNS

KEY = ("window_start", "cluster_id", "principal", "client_instance_id", "role", "node_id", "coordinator")


@cache
def simulated(clients: int, hours: float, *pathologies: Pathology) -> tuple[Sequence[PushRecord], Sequence[Any]]:
    """Pushes of a fleet in the order of their receipt, and the truth of what is wrong with it."""
    plan = make_plan(Simulated(clients=clients, hours=hours, seed=3, pathologies=pathologies))
    records = [record for chunk in Stream(plan, 3).chunks() for record in chunk]
    return sorted(records, key=lambda record: record.received_at), plan.truth


@cache
def of_all_at_once() -> list[dict[str, Any]]:
    """Rows of clients and links, by the functions that `fleet run` uses."""
    records, _ = simulated(12, 0.1)
    chunk = check(bronze_of(records))
    chunk = chunk.take(pa.compute.sort_indices(chunk, sort_keys=[(name, "ascending") for name in ORDER]))
    points = pa.Table.from_batches(list(points_of([chunk])))
    rows = aggregate(points, WINDOW_S)
    return ordered([judged_of(rows.filter(pa.compute.is_null(rows["topic"])))])


def ordered(tables: Sequence[Table]) -> list[dict[str, Any]]:
    rows = [row for table in tables for row in table.select(COLUMNS).to_pylist()]
    links = [row["role"] is not None for row in rows]
    for row, is_link in zip(rows, links, strict=True):
        if is_link:  # the console judges links by their latency alone
            kept = {*KEY, "window_s", "topic", "request_latency_avg_ms"}
            row |= dict.fromkeys(set(row) - kept)
    return sorted(rows, key=lambda row: tuple(str(row[name]) for name in KEY))


@settings(max_examples=8, deadline=None)
@given(sizes=st.lists(st.integers(1, 120), min_size=1, max_size=20), at_once=st.sampled_from([1, 5, 20_000]))
def test_in_whatever_pieces_pushes_come_their_judged_rows_are_those_of_all_at_once(
    sizes: list[int], at_once: int
) -> None:
    records, _ = simulated(12, 0.1)
    assert ordered(judged_in_pieces(records, sizes, at_once)) == of_all_at_once()


def judged_in_pieces(records: Sequence[PushRecord], sizes: list[int], at_once: int) -> list[Table]:
    live, windows = LivePushes(WINDOW_S, metric_names(), 1_000), OpenWindows()
    windows.rows_at_once = at_once
    found, at, turn = [], 0, 0
    while at < len(records):
        piece = records[at : at + sizes[turn % len(sizes)]]
        at, turn = at + len(piece), turn + 1
        windows.add(live.take(piece).rows)
        found += [rows for _, rows in windows.close(piece[-1].received_at - 5_000_000)]
    found += [rows for _, rows in windows.close(2**62)]
    return found


def test_a_push_without_points_says_that_its_client_is_there() -> None:
    records, _ = simulated(12, 0.1)
    empty = [each._replace(metrics=b"", received_at=each.received_at + 1) for each in records[:20]]
    pushes = sorted([*records[:20], *empty], key=lambda each: each.received_at)
    judged = ordered(judged_in_pieces(pushes, [5, 11], 1))
    clients = [row for row in judged if row["role"] is None]
    assert {row["client_instance_id"] for row in clients} == {each.client_instance_id for each in empty}
    assert sum(row["pushes"] for row in clients) == 40


@pytest.mark.parametrize("verdict", ["throttled", "rebalance-storm"])
def test_what_goes_wrong_in_a_simulated_fleet_is_an_open_verdict_of_the_console(verdict: str) -> None:
    records, truth = simulated(30, 0.75, Pathology(verdict=verdict, subject=None, from_s=600, to_s=2_700))
    wanted = {(row.verdict, row.subject) for row in truth}
    clock = MockTime(wall_ms=records[0].received_at // 1_000)
    source = GivenPushes(clock)
    fleet = Fleet(source, FleetSettings(decode_cores=1_000), time=clock)
    at = 0
    while at < len(records):
        clock.sleep(10_000)
        begin, now_us = at, clock.microseconds()
        while at < len(records) and records[at].received_at <= now_us:
            at += 1
        source.give(records[begin:at])
        fleet.step()
    found = fleet.verdicts("all")
    rows = {(row["verdict"], row["subject"]): row for row in found["verdicts"]}
    assert wanted <= rows.keys()
    assert found["source"] == "live"
    assert found["judged_to"] > records[-1].received_at - 200_000_000
    for key in wanted:
        row = rows[key]
        assert isinstance(row["opened_at"], int)
        assert row["evidence"][0]["window_s"] == WINDOW_S
        assert "; since" not in row["sentence"]
        assert row["action"]
    overview = fleet.overview()["verdicts"]
    assert overview["critical"] + overview["warning"] + overview["info"] == len(fleet.verdicts()["verdicts"])
