"""Verdicts delivered to each destination: the table `delivered`, written after each delivery."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

from deltalake.exceptions import DeltaError

from fleetgauge.fleet.arrow import pa
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.watch.changes import Change, Row, forgotten
from fleetgauge.fleet.watch.http import DeliveryError

_SINCE = ""
"""Stands for the id in a row with the time from which a destination receives verdicts."""


class Delivered:
    """Verdicts delivered to one destination, in the state of delivery.

    Args:
        store: the tables.
        destination: its name.
        since: for a new destination, verdicts last seen before this time are skipped.
        writing: held while the table is written, which other destinations share.
    """

    def __init__(
        self, store: Store, destination: str, since: datetime, writing: AbstractContextManager[Any] | None = None
    ) -> None:
        self._writing = writing or nullcontext()
        self._store = store
        self._destination = destination
        own = {row["id"]: row for row in store.rows(catalog.DELIVERED) if row["destination"] == destination}
        self._is_new = _SINCE not in own
        first = own.pop(_SINCE, {"delivered_at": since})
        self._since: datetime = first["delivered_at"]
        self.rows: dict[str, Row] = {name: json.loads(row["verdict"]) for name, row in own.items()}
        self._times: dict[str, datetime] = {name: row["delivered_at"] for name, row in own.items()}

    @property
    def since(self) -> str:
        """Time in the form of rows."""
        return text_of(self._since)

    @property
    def open(self) -> dict[str, Row]:
        """Delivered verdicts that have not cleared."""
        return {name: row for name, row in self.rows.items() if row["state"] == "open"}

    def begin(self) -> None:
        """Records the time from which a new destination receives verdicts; see `take`."""
        if self._is_new:
            self.take((), self._since)

    def take(self, changes: Sequence[Change], at: datetime, rows_of_table: Sequence[Row] | None = None) -> None:
        """Records a delivery.

        Args:
            changes: delivered now.
            at: when.
            rows_of_table: the rows of the table `verdicts`; delivered verdicts that are over and not in it are removed.

        Raises:
            DeliveryError: that cannot be written down, so that it is delivered again.
        """
        rows = self.rows | {change.id: change.row for change in changes}
        times = self._times | dict.fromkeys((change.id for change in changes), at)
        gone = set() if rows_of_table is None else forgotten(rows_of_table, rows)
        rows = {name: row for name, row in rows.items() if name not in gone}
        own = [self._row(name, json.dumps(row), times[name]) for name, row in rows.items()]
        try:
            with self._writing:
                others = [row for row in self._store.rows(catalog.DELIVERED) if row["destination"] != self._destination]
                every = [*others, self._row(_SINCE, None, self._since), *own]
                self._store.replace(catalog.DELIVERED, pa.Table.from_pylist(every, schema=catalog.DELIVERED.schema))
        except (TableError, DeltaError, OSError) as error:
            raise DeliveryError(f"the delivery cannot be recorded: {' '.join(str(error).split())}") from error
        self.rows, self._times, self._is_new = rows, {name: times[name] for name in rows}, False

    def _row(self, name: str, verdict: str | None, at: datetime) -> dict[str, Any]:
        return {"destination": self._destination, "id": name, "verdict": verdict, "delivered_at": at}


def text_of(at: datetime) -> str:
    """A time as the rows of `fleet.report.cells.json_lines` have it.

    >>> text_of(datetime(2026, 3, 1, 12, tzinfo=UTC))
    '2026-03-01T12:00:00.000Z'
    """
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
