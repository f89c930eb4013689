"""The table of alerts: one row an alert, which says whether it is open, and when and why it cleared."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from fleet.decode.arrow import pa
from fleet.tables.log import Layout, TableLog, Transaction
from fleet.watch.identity import ALERTS

_TIMES: Final = [field.name for field in ALERTS if pa.types.is_timestamp(field.type)]
_IS_NEWER: Final = """
    s.changed_at > t.changed_at
    OR s.changed_at = t.changed_at AND (t.cleared_at IS NULL OR s.cleared_at >= t.cleared_at)
"""
"""SQL. An alert of the same times is written again: it was made again, and may say more."""


def as_json(alert: Mapping[str, Any]) -> str:
    """One line, with every column of ALERTS."""
    return json.dumps({name: alert[name] for name in ALERTS.names})


class AlertTable:
    """The Delta table that alerts go to, made by the first of them.

    Args:
        log: of the table.
        app_id: the checkpoint's own id, which transactions are counted under.
    """

    def __init__(self, log: TableLog, app_id: str) -> None:
        self._log = log
        self._app_id = app_id

    def write(self, alerts: Iterable[str], batch: int) -> None:
        """Adds the alerts that opened and changes those that cleared, once however often the batch runs.

        Args:
            alerts: as JSON, in any order.
            batch: its number.
        """
        last: dict[str, dict[str, Any]] = {}
        for alert in sorted(map(_row, alerts), key=_order):
            last[alert["alert_id"]] = alert
        self._log.create(ALERTS, Layout())
        rows = pa.Table.from_pylist(list(last.values()), schema=ALERTS)
        transaction = Transaction(app_id=self._app_id, version=batch)
        self._log.upsert(rows, "alert_id", _IS_NEWER, transaction)


def _row(alert: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(alert)
    return row | {name: datetime.fromisoformat(row[name]) for name in _TIMES if row[name] is not None}


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    cleared_at = row["cleared_at"]
    return row["changed_at"], cleared_at is not None, cleared_at
