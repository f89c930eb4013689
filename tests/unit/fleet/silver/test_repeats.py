"""Pushes that were received more than once: which rows are left out, however batches divide them."""

import itertools
from typing import Any

import pyarrow as pa
import pytest
from spark.landing_zone import NOON_US, OTHER_INSTANCE, push
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.schemas import CHECKED
from fleetgauge.fleet.silver.repeats import ORDER, WithoutRepeats, repeated

ONE, TWO = "1" * 32, "2" * 32
PLACES = itertools.count()


def row(metrics: bytes | None = b"", push_id: str | None = ONE, **fields: Any) -> dict[str, Any]:
    """A row of CHECKED in a place of its own."""
    place = {"source_file": "file:/a", "source_row": next(PLACES), "reason": None}
    return push(metrics) | place | {"push_id": push_id} | fields


def in_order(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """As a task has them: nulls come first."""
    rows = sorted(rows, key=lambda each: [(each[name] is not None, each[name] or 0) for name in ORDER])
    return pa.RecordBatch.from_pylist(rows, schema=CHECKED)


def kept(rows: list[dict[str, Any]], *, at_once: int = 1_000) -> tuple[list[dict[str, Any]], int]:
    """The rows that stay, of batches of so many, and how many were left out."""
    batch = in_order(rows)
    without = WithoutRepeats()
    batches = [batch.slice(begin, at_once) for begin in range(0, len(batch), at_once)]
    found = [each for left in without(batches) for each in left.to_pylist()]
    assert len(found) + without.repeats == len(rows)
    return found, without.repeats


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_repeats_are_left_out_wherever_one_batch_ends_and_the_next_begins(at_once: int) -> None:
    payload = dialect.franz_go({1: 1.0})
    rows = [
        *(row(payload, received_at=NOON_US + second * 1_000_000, push_id=f"{second:032x}") for second in range(3)),
        *(row(payload, received_at=NOON_US + 1_000_000, push_id=f"{1:032x}") for _ in range(4)),
        *(row(payload, received_at=NOON_US + 2_000_000, push_id=f"{2:032x}") for _ in range(2)),
        row(payload, push_id=TWO, client_instance_id=OTHER_INSTANCE),
        row(payload, push_id=TWO, client_instance_id=OTHER_INSTANCE),
    ]
    found, repeats = kept(rows, at_once=at_once)
    assert [each["push_id"] for each in found] == [TWO, *(f"{second:032x}" for second in range(3))]
    assert repeats == 7
    assert found == in_order([*rows[:3], rows[-2]]).to_pylist(), "the first by their places"


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_rows_whose_payload_cannot_be_read_are_set_aside_each_for_itself(at_once: int) -> None:
    """Of several batches each would set its own aside."""
    found, repeats = kept([row(dialect.MALFORMED) for _ in range(3)], at_once=at_once)
    assert (len(found), repeats) == (3, 0)


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("place", range(4))
def test_rows_that_were_set_aside_are_no_repeats_and_hide_none(place: int, at_once: int) -> None:
    bad: dict[str, Any] = {"push_id": None, "reason": "push_id is null"}
    of_one = [row(b"") for _ in range(3)]
    of_one.insert(place, row(None, reason="metrics is null"))
    found, repeats = kept([row(**bad), row(**bad), *of_one], at_once=at_once)
    assert (len(found), repeats) == (4, 2)
    reasons = sorted(each["reason"] or "" for each in found)
    assert reasons == ["", "metrics is null", "push_id is null", "push_id is null"]


def test_of_rows_of_one_push_that_differ_the_same_one_stays_wherever_they_lie() -> None:
    contents: list[dict[str, Any]] = [
        {"client_id": "one"},
        {"client_id": "two"},
        {"metrics": dialect.franz_go({1: 1.0})},
        {"push_interval_ms": None},
    ]
    left = set()
    for order in itertools.permutations(contents):
        ((found,), repeats) = kept([row() | {"client_id": "app"} | content for content in order])
        left.add((found["client_id"], found["push_interval_ms"], found["metrics"]))
        assert repeats == 3
    assert len(left) == 1


def test_of_a_malformed_row_and_a_good_one_of_one_push_one_stays_wherever_they_lie() -> None:
    good, bad = {"metrics": b"", "client_id": "b"}, {"metrics": dialect.MALFORMED, "client_id": "b"}
    for contents in ((good, bad), (bad, good)):
        found, _ = kept([row() | content for content in (*contents, *contents)])
        assert len({each["metrics"] for each in found}) == 1


def test_one_id_of_two_instances_or_times_is_two_pushes() -> None:
    rows = [
        row(),
        row(client_instance_id=OTHER_INSTANCE),
        row(cluster_id="other"),
        row(principal="User:other"),
        row(received_at=NOON_US + 1),
    ]
    assert kept(rows) == (in_order(rows).to_pylist(), 0)


def test_nulls_are_no_repeats_of_one_another() -> None:
    nulls: list[dict[str, Any]] = [{name: None, "reason": f"{name} is null"} for name in ("push_id", "received_at")]
    rows = [row(**fields) for fields in nulls for _ in range(2)]
    assert kept(rows)[1] == 0
    assert kept(rows, at_once=1)[1] == 0


def test_columns_that_are_null_in_some_rows_are_compared() -> None:
    rows = [row(client_source_port=port) for port in (None, 40_001, None)]
    found, repeats = kept(rows)
    assert ([each["client_source_port"] for each in found], repeats) == ([None], 2)
    assert repeated(rows) == [1, 2]


def test_nothing_comes_of_nothing() -> None:
    assert kept([]) == ([], 0)
    empty = pa.RecordBatch.from_pylist([], schema=CHECKED)
    assert list(WithoutRepeats()([empty, empty])) == []
