"""Description of a table's data file, passed from the process that wrote it to the one that commits it."""

from dataclasses import dataclass
from datetime import date
from typing import Final

DATE: Final = "date"
"""Column that a table is partitioned by; its values are in the log and in directory names, not in files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file, permanently on disk; a row of `fleet.schemas.FILES`.

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
