"""Silver: rules for push records, and the check of Arrow rows against them."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.schemas import CHECKED, TIME
from fleetgauge.telemetry.push_record import SCHEMA_VERSION

FORMS: Final = (
    ("push_id", r"\A[0-9a-f]{32}\z", "32 lower-case hex digits"),
    ("client_instance_id", r"\A[A-Za-z0-9_-]{22}\z", "22 characters of URL-safe base64"),
)
"""Columns, the patterns that they must match, and the texts of the reasons."""

PRESENT: Final = ("received_at", "metrics")
"""Columns that are never null, besides `schema_version`."""

KEYS: Final = ("cluster_id", "principal")
"""Columns that identify an instance and may be null in the input."""


TIMES: Final = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))
"""Bounds of a possible time of receipt: brokers' clocks report no other times, and a partition for the day of every
other row would flood the tables.
"""


def checked(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """BRONZE -> CHECKED, batch by batch; a step of `mapInArrow`."""
    return map(check, batches)


def check(bronze: RecordBatch) -> RecordBatch:
    """BRONZE -> CHECKED: `reason` says why a row is set aside; null for a good one.

    A `cluster_id` or `principal` that is not known becomes '', since it is part of every key; a `received_at` that
    cannot be is null.
    """
    received_at = bronze.column("received_at")
    is_time = pc.and_(
        *(compare(received_at, pa.scalar(end, TIME)) for compare, end in zip(_WITHIN, TIMES, strict=True))
    )
    own = {"reason": _reason(bronze, is_time), "received_at": pc.if_else(is_time, received_at, None)}
    own |= {name: bronze.column(name).fill_null("") for name in KEYS}
    columns = [own[name] if name in own else bronze.column(name) for name in CHECKED.names]
    return pa.RecordBatch.from_arrays(columns, schema=CHECKED)


_WITHIN: Final = (pc.greater_equal, pc.less_equal)


def _reason(bronze: RecordBatch, is_time: Array) -> Array:
    """The first fault of each row; the version is checked early, since a newer one may have other rules."""
    version = bronze.column("schema_version")
    newer = pc.binary_join_element_wise(
        "schema_version ", version.cast(pa.string()), f" is newer than {SCHEMA_VERSION}", ""
    )
    reasons = [
        bronze.column("fault"),
        _where(pc.invert(is_time), f"received_at is not between the years {TIMES[0].year} and {TIMES[1].year}"),
        _where(version.is_null(), "schema_version is null"),
        pc.if_else(pc.greater(version, SCHEMA_VERSION), newer, None),
    ]
    for name, pattern, form in FORMS:
        column = bronze.column(name)
        reasons.append(_where(column.is_null(), f"{name} is null"))
        reasons.append(_where(pc.invert(pc.match_substring_regex(column, pattern)), f"{name} is not {form}"))
    reasons += [_where(bronze.column(name).is_null(), f"{name} is null") for name in PRESENT]
    return pc.coalesce(*reasons)


def _where(condition: Array, text: str) -> Array:
    return pc.if_else(condition, text, pa.scalar(None, pa.string()))
