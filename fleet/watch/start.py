"""From when on pushes count: said at the first start, and kept beside the checkpoint for all later ones."""

from datetime import UTC, datetime
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fleet.decode.arrow import pa
from fleet.errors import TableError
from fleet.spark_errors import is_missing_path, what_failed

_NAME: Final = "watched_since"


def remember_start(spark: SparkSession, checkpoint: str, since: datetime) -> datetime:
    """`since`, or what an earlier start of the same checkpoint said.

    Raises:
        TableError: the checkpoint's directory cannot be written to, or holds something else.
    """
    path = f"{checkpoint}/{_NAME}"
    try:
        for row in spark.read.text(path).collect():  # none where it was cut off
            return datetime.fromisoformat(row.value).astimezone(UTC)
    except ValueError as error:
        raise TableError(f"{path} says no time: remove the checkpoint, or name another one") from error
    except (PySparkException, Py4JJavaError) as error:
        if not is_missing_path(error):
            raise TableError(f"the checkpoint {checkpoint} cannot be read: {what_failed(error)}") from error
    try:
        spark.createDataFrame(pa.table({"value": [since.isoformat()]})).coalesce(1).write.mode("overwrite").text(path)
    except (PySparkException, Py4JJavaError) as error:
        raise TableError(f"the checkpoint {checkpoint} cannot be written to: {what_failed(error)}") from error
    return since
