"""The table of alerts: one row an alert, which says whether it is open, and when and why it cleared."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fleet.decode.arrow import pa, pc
from fleet.tables.catalog import ALERTS
from fleet.tables.log import TableLog, Transaction
from fleet.tables.parquet_files import WriteFiles

_TIMES: Final = [field.name for field in ALERTS.schema if pa.types.is_timestamp(field.type)]
_MANY_FILES: Final = 32
"""So many are written together as one by the next alerts."""


def as_json(alert: Mapping[str, Any]) -> str:
    """One line, with every column of ALERTS."""
    return json.dumps({name: alert[name] for name in ALERTS.schema.names})


class AlertTable:
    """The Delta table that alerts go to, made by the first of them.

    Args:
        path: a path or URI.
        options: see `fleet.tables.paths.storage_options`.
    """

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        self._log = TableLog(path, options)
        self._files = WriteFiles(
            table=ALERTS.name, path=path, schema=ALERTS.schema, statistics_of=ALERTS.indexed, options=options
        )

    def check(self) -> None:
        """Adds the columns that a table of an earlier release lacks; raises TableError if another table is there."""
        if self._log.exists():
            self._log.check_columns(ALERTS.schema)
            self._log.set_properties(ALERTS.layout.properties)

    def write(self, alerts: Iterable[str], transaction: Transaction) -> None:
        """Adds the alerts that opened and changes those that cleared, once however often the batch runs.

        Args:
            alerts: as JSON, in any order.
            transaction: of the batch.

        Raises:
            CommitFailedError: another watch wrote the table meanwhile.
        """
        rows = sorted(map(_row, alerts), key=_order)
        self._log.create(ALERTS.schema, ALERTS.layout)
        standing, old = self._standing({row["alert_id"] for row in rows})
        for row in rows:
            before = standing.get(row["alert_id"])
            if before is None or _order(before) <= _order(
                row
            ):  # one of the same times was made again, and may say more
                standing[row["alert_id"]] = row
        with self._files.open() as writer:
            for part in pa.Table.from_pylist(list(standing.values()), schema=ALERTS.schema).to_batches():
                writer.write(part)
            writer.finish()
            self._log.change(writer.take_finished(), old, transaction)

    def _standing(self, ids: set[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
        """The rows of the files that are written anew by their ids, and the files: those that have one of `ids`."""
        rows = self._log.snapshot()
        paths = rows.paths()
        is_asked = pc.field("alert_id").isin(list(ids))
        old = [path for path in paths if any(part.num_rows for part in rows.scan(["alert_id"], is_asked, [path]))]
        old = paths if len(paths) >= _MANY_FILES else old
        found = [row for part in rows.scan(paths=old) for row in part.to_pylist()]
        return {row["alert_id"]: row for row in found}, old


def _row(alert: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(alert)
    return row | {name: datetime.fromisoformat(row[name]) for name in _TIMES if row[name] is not None}


def _order(row: Mapping[str, Any]) -> tuple[datetime, datetime]:
    return row["changed_at"], row["cleared_at"] or datetime.min.replace(tzinfo=UTC)
