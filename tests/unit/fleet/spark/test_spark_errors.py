"""What an operator reads of Spark's reports."""

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PythonException, StreamingQueryException

from fleetgauge.fleet.spark.errors import is_missing_path, unreadable_file, what_failed

REPORT = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 2044, in main
    process()
  File "/opt/spark/python/lib/pyspark.zip/pyspark/serializers.py", line 1, in load
    import pyarrow
ModuleNotFoundError: No module named 'pyarrow'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""


def test_what_python_raised_on_an_executor_is_named() -> None:
    assert what_failed(PythonException(REPORT)) == (
        "Python on an executor raised ModuleNotFoundError: No module named 'pyarrow'"
    )


def test_any_other_report_is_its_first_line() -> None:
    assert what_failed(PythonException("[A_CONDITION] it is so.\n== SQL ==\nselect")) == "[A_CONDITION] it is so."


class JavaException:
    """As py4j gives one: with a condition if it is of Spark's own."""

    def __init__(self, name: str, cause: "JavaException | None" = None, condition: str = "", **parameters: str) -> None:
        self._name, self._cause, self._condition, self._parameters = name, cause, condition, parameters

    def getCause(self) -> "JavaException | None":  # noqa: N802
        return self._cause

    def getCondition(self) -> str:  # noqa: N802
        if not self._condition:
            raise Py4JError("Method getCondition([]) does not exist")
        return self._condition

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802
        return self._parameters


def captured(java: JavaException) -> Any:
    error = StreamingQueryException("[STREAM_FAILED] Query terminated")
    error._origin = java  # type: ignore[attr-defined]  # as PySpark sets it
    return error


def test_a_file_that_a_stream_cannot_read_is_named_from_what_caused_its_end() -> None:
    of_file = JavaException("org.apache.spark.SparkException", None, "FAILED_READ_FILE.NO_HINT", path="file:///a/b%20c")
    aborted = JavaException("java.util.concurrent.ExecutionException", of_file)
    error = captured(JavaException("StreamingQueryException", aborted, "STREAM_FAILED", id="1"))
    assert unreadable_file(error) == "/a/b c"
    assert what_failed(error).startswith("file:///a/b%20c cannot be read: take it out")
    assert not is_missing_path(error)
    missing = captured(JavaException("AnalysisException", None, "PATH_NOT_FOUND", path="s3a://a/b"))
    assert (unreadable_file(missing), is_missing_path(missing)) == ("s3a://a/b", True)
