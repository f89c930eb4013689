"""The table of alerts: one row an alert, which says whether it is open, and when and why it cleared."""

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fleet.tables import delta
from fleet.tables.log import TableLog, Transaction
from fleet.tables.paths import storage_options
from fleet.watch.identity import IDENTITY

_INTEGERS: Final = ("client_source_port", "receiver_node_id", "push_interval_ms")


def _fields(*names: str, kind: T.DataType | None = None) -> list[T.StructField]:
    integer, text = T.IntegerType(), T.StringType()
    return [T.StructField(name, kind or (integer if name in _INTEGERS else text)) for name in names]


_CONNECTION: Final = T.StructType(_fields("client_source_address", "client_source_port", "receiver_node_id"))

ALERTS: Final = T.StructType(
    _fields("alert_id", "state", "rule", "severity", "text", "metric_name")
    + _fields("value", "furthest", "threshold", kind=T.DoubleType())
    + _fields("node_id", kind=T.IntegerType())
    + _fields("topic")
    + _fields("began_at", "opened_at", "cleared_at", kind=T.TimestampType())
    + _fields("clear_reason")
    + _fields("changed_at", kind=T.TimestampType())
    + _fields(*IDENTITY)
    + _fields("connections", kind=T.ArrayType(_CONNECTION, containsNull=True))
)
"""One row an alert, by `alert_id`; the columns of the JSON that receivers get, in its order.

`state` is `open` or `cleared`; `value` is that at the opening, `furthest` the one furthest beyond `threshold` up to the
last change; `began_at` is since when the condition held, `opened_at` when it had held for long enough; `node_id` and
`topic` are what the value is about. Then the client: the connection of its latest push, and in `connections` the latest
ones, each with the broker that it pushed to.
"""


def as_json(alert: Mapping[str, Any]) -> str:
    """One line, with every column of ALERTS."""
    return json.dumps({name: alert[name] for name in ALERTS.names})


def check_table(spark: SparkSession, path: str) -> None:
    """Adds the columns that a table of an earlier release lacks; raises TableError if another table is there."""
    log = _log(spark, path)
    if log.exists():
        log.check_columns(ALERTS)


def _log(spark: SparkSession, path: str) -> TableLog:
    return TableLog(path, storage_options(dict(spark.sparkContext.getConf().getAll())))


class AlertTable:
    """The Delta table that alerts go to, made by the first of them.

    Args:
        path: a whole URI.
        app_id: the checkpoint's own id, which transactions are counted under.
    """

    def __init__(self, path: str, app_id: str) -> None:
        self._path = path
        self._app_id = app_id

    def write(self, said: DataFrame, batch: int) -> None:
        """Adds the alerts that opened and changes those that cleared, once however often the batch runs."""
        columns = said.select(F.from_json("alert", ALERTS).alias("alert"))
        last = F.max_by("alert", F.struct("alert.changed_at", "alert.cleared_at"))
        rows = columns.groupBy("alert.alert_id").agg(last.alias("alert")).select("alert.*")
        transaction = Transaction(app_id=self._app_id, version=batch)
        if _log(said.sparkSession, self._path).exists():
            delta.merge(
                rows, self._path, key=["alert_id"], newer_by=["changed_at", "cleared_at"], transaction=transaction
            )
        else:
            delta.append(rows, self._path, transaction=transaction)
