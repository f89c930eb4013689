"""Error sentences for an operator, extracted from Spark's reports."""

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from fleetgauge.fleet.errors import FleetError, first_line

SPARK_ERRORS: Final = (PySparkException, Py4JError)
"""Exceptions of PySpark; a session in this process also raises py4j's exceptions of the JVM."""

_PYTHON_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<said>\S.*)")


def what_failed(error: Exception) -> str:
    """One line about an exception of PySpark or py4j; for an error of ours in a task, its own sentence."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    if traces := _PYTHON_TRACE.findall(text):
        said = traces[-1].strip()
        name, _, sentence = said.partition(": ")
        return sentence if name.startswith(FleetError.__module__) else f"Python on an executor raised {said}"
    return first_line(Exception(text)) if text else type(error).__name__


def is_missing_path(error: Exception) -> bool:
    """True if Spark was given a path that does not exist."""
    return isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND"
