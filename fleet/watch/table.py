"""The table of alerts: one row an alert, which says whether it is open, and when and why it cleared."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.spark_schema import spark_schema
from fleet.tables import delta
from fleet.tables.log import TableLog, Transaction
from fleet.tables.paths import storage_options
from fleet.watch.identity import ALERTS


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
        columns = said.select(F.from_json("alert", spark_schema(ALERTS)).alias("alert"))
        last = F.max_by("alert", F.struct("alert.changed_at", "alert.cleared_at"))
        rows = columns.groupBy("alert.alert_id").agg(last.alias("alert")).select("alert.*")
        transaction = Transaction(app_id=self._app_id, version=batch)
        if _log(said.sparkSession, self._path).exists():
            delta.merge(
                rows, self._path, key=["alert_id"], newer_by=["changed_at", "cleared_at"], transaction=transaction
            )
        else:
            delta.append(rows, self._path, transaction=transaction)
