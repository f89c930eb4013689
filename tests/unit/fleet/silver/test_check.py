"""The rules that a push record is checked by, and which of several faults is told."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from spark.landing_zone import ONE_INSTANCE, push

from fleetgauge.fleet.schemas import BRONZE, CHECKED
from fleetgauge.fleet.silver.check import TIMES, check, checked

FIRST, LAST = (int(end.timestamp()) * 1_000_000 for end in TIMES)
NO_TIME = "received_at is not between the years 2000 and 2200"
NO_ID = "push_id is not 32 lower-case hex digits"
NO_INSTANCE = "client_instance_id is not 22 characters of URL-safe base64"


def bronze(*rows: dict[str, Any]) -> pa.RecordBatch:
    origin = {"source_file": "file:/a", "source_row": 7, "fault": None}
    return pa.RecordBatch.from_pylist([origin | row for row in rows], schema=BRONZE)


def reason(**fields: Any) -> str | None:
    (row,) = check(bronze(push() | fields)).to_pylist()
    found: str | None = row["reason"]
    return found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"push_id": None}, "push_id is null"),
        ({"push_id": "A" * 32}, NO_ID),
        ({"push_id": "a" * 31}, NO_ID),
        ({"push_id": "a" * 32 + "\n"}, NO_ID),
        ({"client_instance_id": None}, "client_instance_id is null"),
        ({"client_instance_id": "Tm+1TLjmRReIm+FbmcCcIA"}, NO_INSTANCE),
        ({"client_instance_id": ONE_INSTANCE + "="}, NO_INSTANCE),
        ({"client_instance_id": ONE_INSTANCE + "\n"}, NO_INSTANCE),
        ({"client_instance_id": "\u0661" * 22}, NO_INSTANCE),
        ({"received_at": None}, "received_at is null"),
        ({"metrics": None}, "metrics is null"),
        ({"schema_version": None}, "schema_version is null"),
        ({"schema_version": 2}, "schema_version 2 is newer than 1"),
        ({"schema_version": 0}, None),
        ({"fault": "the record has no key"}, "the record has no key"),
        *(({"received_at": us}, None) for us in (FIRST, LAST)),
        *(({"received_at": us}, NO_TIME) for us in (FIRST - 1, LAST + 1, 0, -1, -(2**63), 2**63 - 1)),
    ],
)
def test_a_row_is_good_or_is_set_aside_with_its_reason(fields: dict[str, Any], expected: str | None) -> None:
    assert reason(**fields) == expected


def test_of_several_faults_the_first_of_the_rules_is_told() -> None:
    """A newer version may have other rules for all that comes after it."""
    faults = [
        ("fault", "no key", "no key"),
        ("received_at", 0, NO_TIME),
        ("schema_version", 2, "schema_version 2 is newer than 1"),
        ("push_id", "?", NO_ID),
        ("client_instance_id", "?", NO_INSTANCE),
        ("metrics", None, "metrics is null"),
    ]
    for first in range(len(faults)):
        fields = {name: value for name, value, _ in faults[first:]}
        assert reason(**fields) == faults[first][2]


def test_a_time_that_cannot_be_is_null_and_every_other_column_stays() -> None:
    rows = [push(b"x", received_at=FIRST - 1), push(b"y", cluster_id=None, principal=None), push(None)]
    found = check(bronze(*rows))
    assert found.schema == CHECKED
    assert [row["received_at"] for row in found.to_pylist()] == [
        None,
        *(datetime(2026, 3, 1, 12, tzinfo=UTC) for _ in range(2)),
    ]
    changed = ("received_at", "cluster_id", "principal", "reason")
    names = [name for name in CHECKED.names if name not in changed]
    assert found.select(names) == bronze(*rows).select(names)
    assert [(row["cluster_id"], row["principal"]) for row in found.to_pylist()][1] == ("", "")


def test_a_row_is_checked_for_itself() -> None:
    rows = bronze(push(), push(push_id=None), push(), push(schema_version=3))
    reasons = [None, "push_id is null", None, "schema_version 3 is newer than 1"]
    assert check(rows)["reason"].to_pylist() == reasons
    assert [row for batch in checked([rows[:1], rows[1:1], rows[1:]]) for row in batch["reason"].to_pylist()] == reasons
