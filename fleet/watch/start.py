"""From when on pushes count: said at the first start, and kept beside the checkpoint for all later ones."""

from datetime import UTC, datetime
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from fleet.errors import TableError
from fleet.pipeline.files import exists
from fleet.schemas import INSTANCE
from fleet.spark_errors import what_failed

_NAME: Final = "watched_since"
_KEY: Final = " ".join(INSTANCE)
"""Second line of the file: the columns that the state is kept by."""


def remember_start(spark: SparkSession, checkpoint: str, since: datetime) -> datetime:
    """`since`, or what an earlier start of the same checkpoint said.

    Raises:
        TableError: the checkpoint's directory cannot be written to, or holds something else, as the state of an earlier
            release, which did not keep clusters apart.
    """
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/{_NAME}")
    try:
        system = path.getFileSystem(session.sessionState().newHadoopConf())
        if exists(spark, str(path.toString())):
            stream = system.open(path)
            reader = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(stream, "UTF-8"))
            try:
                remembered, key = datetime.fromisoformat(reader.readLine() or "").astimezone(UTC), reader.readLine()
            finally:
                reader.close()
            if key != _KEY:
                raise TableError(
                    f"the checkpoint {checkpoint} is of an earlier release, which did not keep clusters apart: remove "
                    "it, and the watch begins anew"
                )
            return remembered
        written = system.create(path, False)
        try:
            written.write(bytearray(f"{since.isoformat()}\n{_KEY}\n".encode()))
        finally:
            written.close()
    except Py4JJavaError as error:
        raise TableError(f"the checkpoint {checkpoint} cannot be written to: {what_failed(error)}") from error
    except ValueError as error:
        raise TableError(f"{checkpoint}/{_NAME} says no time: remove the checkpoint, or name another one") from error
    return since
