"""The sentence in Spark's reports that an operator can act on."""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from fleetgauge.fleet.errors import first_line
from fleetgauge.fleet.tables.paths import plain_path

SPARK_ERRORS: Final = (PySparkException, Py4JError)
"""What PySpark raises: of a session in this process also exceptions of the JVM as py4j has them."""

_UNREADABLE_FILE: Final = "FAILED_READ_FILE"
_MISSING_PATH: Final = "PATH_NOT_FOUND"
_PYTHON_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<said>\S.*)")


def what_failed(error: Exception) -> str:
    """One line about an exception of PySpark or py4j; names the file where one could not be read."""
    if path := _path_of(error, _UNREADABLE_FILE):
        return f"{path} cannot be read: take it out of the landing zone, or let its name begin with _"
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    if traces := _PYTHON_TRACE.findall(text):
        return f"Python on an executor raised {traces[-1].strip()}"
    return first_line(Exception(text)) if text else type(error).__name__


def unreadable_file(error: Exception) -> str | None:
    """The path of the file that could not be read, without its scheme where it lies on this machine; None if the error
    is another one.
    """
    if path := _path_of(error, _UNREADABLE_FILE):
        return plain_path(unquote(path))
    missing = _path_of(error, _MISSING_PATH)
    return plain_path(missing) if missing else None


def is_missing_path(error: Exception) -> bool:
    """True if Spark was to read a path that is not there."""
    return _path_of(error, _MISSING_PATH) is not None


def _path_of(error: Exception, condition: str) -> str | None:
    """The path that Spark names with an error condition, as its `SparkThrowable` has it."""
    for each in _causes(error):
        try:
            if str(each.getCondition() or "").startswith(condition):
                path: str | None = each.getMessageParameters().get("path")
                return path
        except Py4JError:  # an exception of Java's own, which has neither
            continue
    return None


def _causes(error: Exception) -> Iterator[Any]:
    """What has an error condition: PySpark's exception of a Spark Connect session; else the Java exceptions behind it,
    to which its `_origin` is the only way.
    """
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if cause is None and isinstance(error, PySparkException):
        yield error
    while cause is not None:
        yield cause
        cause = cause.getCause()
