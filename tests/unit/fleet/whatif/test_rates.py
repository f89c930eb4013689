"""Byte rates by broker from wide rows."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from support.fleet.whatif_tables import CLUSTER, NOON, Sender, windows

from fleetgauge.fleet.measures.rows import ROWS
from fleetgauge.fleet.whatif.quotas import FETCH, PRODUCE
from fleetgauge.fleet.whatif.rates import BY, NO_NODE, Client, rates

NOON_CELL = int(NOON.timestamp()) // 60


def known(*senders: Sender) -> dict[tuple[str, str, str], Client]:
    keys = {"producer": PRODUCE, "consumer": FETCH}
    return {(CLUSTER, f"User:{each.user}", each.name): Client(0, keys[each.role]) for each in senders}


def by_cell(rows: pa.Table, clients: dict[Any, Client], *, to_one: bool = False) -> dict[tuple[int, int], float]:
    found = rates(rows, clients, 60, to_one=to_one).to_pylist()
    return {(row["node_id"], row["cell"] - NOON_CELL): round(row["bytes"] / 60, 3) for row in found}


def test_bytes_are_those_of_each_broker() -> None:
    sender = Sender(name="a", rates=(100.0, 200.0), nodes=(1, 2))
    assert by_cell(windows([sender]), known(sender)) == {(1, 0): 50, (1, 1): 100, (2, 0): 50, (2, 1): 100}


def test_clients_that_share_a_limit_are_added_up() -> None:
    senders = [Sender(name=name, rates=(100.0,)) for name in ("a", "b", "c")]
    found = rates(windows(senders), known(*senders), 60, to_one=False).to_pylist()
    assert [(row["bytes"], row["requests"], row["instances"]) for row in found] == [(18_000, 18, 3)]


def test_a_consumers_bytes_are_those_that_it_receives() -> None:
    sender = Sender(name="a", rates=(100.0,), role="consumer")
    assert by_cell(windows([sender]), known(sender)) == {(1, 0): 100}


def test_pushes_of_a_window_that_came_in_several_batches_count_for_all_of_their_time() -> None:
    sender = Sender(name="a", rates=(100.0,) * 3)
    parts = []
    for number in range(5):  # a push every 12 s, each of a batch of its own
        rows = windows([sender]).to_pylist()
        for row in rows:
            row["push_interval_ms"] = 12_000 if row["push_interval_ms"] else None
            if row["seen_at"] is not None:
                row["seen_at"] -= timedelta(seconds=12 * number)
            if row["bytes_sent_sum"]:
                row["bytes_sent_sum"] //= 5
        parts.append(pa.Table.from_pylist(rows, schema=ROWS))
    assert by_cell(pa.concat_tables(parts), known(sender)) == {(1, 0): 100, (1, 1): 100, (1, 2): 100}


def test_a_correction_takes_bytes_away() -> None:
    sender = Sender(name="a", rates=(100.0, 300.0))
    rows = windows([sender])
    wrong = [row for row in rows.to_pylist() if row["role"] and row["window_start"] > NOON]
    for row in wrong:
        row |= {"bytes_sent_sum": -row["bytes_sent_sum"], "bytes_sent_count": -1}
    corrected = pa.concat_tables([rows, pa.Table.from_pylist(wrong, schema=ROWS)])
    assert by_cell(corrected, known(sender)) == {(1, 0): 100}


def test_clients_without_a_limit_do_not_count() -> None:
    senders = [Sender(name=name, rates=(100.0,)) for name in ("a", "b")]
    assert by_cell(windows(senders), known(senders[0])) == {(1, 0): 100}
    assert by_cell(windows(senders), {}) == {}
    assert by_cell(ROWS.empty_table(), known(*senders)) == {}


def test_a_sum_over_brokers_is_spread_over_those_that_a_client_speaks_to_or_counted_as_ones() -> None:
    sender = Sender(name="a", rates=(100.0,), nodes=(None,))
    links = [{**row, "role": "producer", "node_id": node} for row in windows([sender]).to_pylist() for node in (1, 2)]
    for link in links:
        link |= dict.fromkeys(("bytes_sent_sum", "bytes_sent_count"))
    rows = pa.concat_tables([windows([sender]), pa.Table.from_pylist(links, schema=ROWS)])
    assert by_cell(rows, known(sender)) == {(1, 0): 50, (2, 0): 50}
    assert by_cell(rows, known(sender), to_one=True) == {(NO_NODE, 0): 100}
    assert by_cell(windows([sender]), known(sender)) == {(NO_NODE, 0): 100}
    by = {to_one: rates(rows, known(sender), 60, to_one=to_one)["by"][0].as_py() for to_one in (False, True)}
    assert {to_one: BY[place] for to_one, place in by.items()} == {False: "even", True: "one"}


@pytest.mark.parametrize("late_s", [0, 25, -25])
def test_bytes_count_for_the_time_since_the_push_before(late_s: int) -> None:
    sender = Sender(name="a", rates=(100.0, 100.0, 100.0))
    rows = windows([sender]).to_pylist()
    late = timedelta(seconds=late_s)
    second = NOON + timedelta(seconds=60)
    for row in rows:
        if row["window_start"] == second:
            if row["seen_at"] is not None:
                row["seen_at"] += late
            elif row["bytes_sent_sum"]:
                row["bytes_sent_sum"] += 100 * late_s * 1_000
        elif row["window_start"] > second and row["bytes_sent_sum"]:
            row["bytes_sent_sum"] -= 100 * late_s * 1_000
    found = by_cell(pa.Table.from_pylist(rows, schema=ROWS), known(sender))
    assert found == {(1, 0): 100, (1, 1): 100, (1, 2): 100}, "a push that is late or early makes no peak"


def test_a_push_after_a_silence_counts_for_its_own_interval() -> None:
    sender = Sender(name="a", rates=(100.0, *[0.0] * 8, 100.0))
    kept = [row for row in windows([sender]).to_pylist() if row["window_start"] in (NOON, NOON + timedelta(minutes=9))]
    found = by_cell(pa.Table.from_pylist(kept, schema=ROWS), known(sender))
    assert {cell for _, cell in found} == {0, 8, 9}
    assert sum(found.values()) == pytest.approx(200, abs=0.01)
