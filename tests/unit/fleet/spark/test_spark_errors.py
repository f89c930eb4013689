"""What an operator reads of Spark's reports."""

from pyspark.errors import PythonException

from fleetgauge.fleet.spark.errors import what_failed

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


def test_an_error_of_ours_on_an_executor_is_its_sentence() -> None:
    report = REPORT.replace("ModuleNotFoundError: No module", "fleetgauge.fleet.errors.LandingError: /a: no module")
    assert what_failed(PythonException(report)) == "/a: no module named 'pyarrow'"
