"""From when on pushes count: said at the first start, and kept beside the checkpoint for all later ones."""

from datetime import UTC, datetime
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fleet.decode.arrow import pa
from fleet.errors import TableError
from fleet.schemas import INSTANCE
from fleet.spark_errors import is_missing_path, what_failed

_NAME: Final = "watched_since"
_KEY: Final = " ".join(INSTANCE)
"""Second line of the text: the columns that the state is kept by."""


def remember_start(spark: SparkSession, checkpoint: str, since: datetime) -> datetime:
    """`since`, or what an earlier start of the same checkpoint said.

    Raises:
        TableError: the checkpoint's directory cannot be written to, or holds something else, as the state of an earlier
            release, which did not keep clusters apart.
    """
    path = f"{checkpoint}/{_NAME}"
    try:
        said = _read(spark, path)
        if not said:  # nor where it was cut off
            lines = pa.table({"value": [since.isoformat(), _KEY]})
            spark.createDataFrame(lines).coalesce(1).write.mode("overwrite").text(path)
            return since
        remembered = datetime.fromisoformat(said[0]).astimezone(UTC)
    except (PySparkException, Py4JJavaError) as error:
        raise TableError(f"the checkpoint {checkpoint} cannot be written to: {what_failed(error)}") from error
    except ValueError as error:
        raise TableError(f"{path} says no time: remove the checkpoint, or name another one") from error
    if said[1:] != [_KEY]:
        raise TableError(
            f"the checkpoint {checkpoint} is of an earlier release, which did not keep clusters apart: remove it, and "
            "the watch begins anew"
        )
    return remembered


def _read(spark: SparkSession, path: str) -> list[str]:
    try:
        return [row.value for row in spark.read.text(path).collect()]
    except PySparkException as error:
        if is_missing_path(error):
            return []
        raise
