"""A data file of a table, as whoever wrote it describes it to whoever commits it."""

from dataclasses import dataclass
from datetime import date
from typing import Final

DATE: Final = "date"
"""The column that a table is partitioned by: its values are in the log and in names of directories, not in files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file, which is on disk for good; a row of `fleet.schemas.FILES`.

    Attributes:
        table: its table's name.
        path: under the table's directory, parted by `/`.
        size_bytes: of the file [B].
        modified_at_ms: Unix time [ms].
        date: of all its rows; None where the table is not partitioned, or the rows have none.
        rows: in it.
        statistics: Delta's, as JSON.
    """

    table: str
    path: str
    size_bytes: int
    modified_at_ms: int
    date: date | None
    rows: int
    statistics: str
