"""Silver: the rules that push records are checked by, and the check of rows in Arrow."""

from typing import Final

from fleet.decode.arrow import Array, RecordBatch, pa, pc
from fleet.schemas import CHECKED
from telemetry.push_record import SCHEMA_VERSION

FORMS: Final = (
    ("push_id", r"\A[0-9a-f]{32}\z", "32 lower-case hex digits"),
    ("client_instance_id", r"\A[A-Za-z0-9_-]{22}\z", "22 characters of URL-safe base64"),
)
"""Columns, what they match, and how that is said."""

PRESENT: Final = ("received_at", "metrics")
"""Columns that are never null, besides `schema_version`."""

KEYS: Final = ("cluster_id", "principal")
"""Columns that tell an instance and may be null in what is read."""


def check(bronze: RecordBatch) -> RecordBatch:
    """BRONZE -> CHECKED: `reason` says why a row is set aside; null for a good one.

    A `cluster_id` or `principal` that is not known becomes '', since it is part of every key.
    """
    own = {"reason": _reason(bronze)} | {name: bronze.column(name).fill_null("") for name in KEYS}
    columns = [own[name] if name in own else bronze.column(name) for name in CHECKED.names]
    return pa.RecordBatch.from_arrays(columns, schema=CHECKED)


def _reason(bronze: RecordBatch) -> Array:
    """The first thing that is wrong; the version early, since a newer one may have other rules for the rest."""
    version = bronze.column("schema_version")
    newer = pc.binary_join_element_wise(
        "schema_version ", version.cast(pa.string()), f" is newer than {SCHEMA_VERSION}", ""
    )
    reasons = [
        bronze.column("fault"),
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
