"""The sentence in Spark's reports that an operator can act on."""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from fleet.errors import first_line
from fleet.tables.paths import plain_path

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


def class_names(error: Py4JJavaError) -> list[str]:
    """Of a Java exception, and of what caused it."""
    return [str(each.getClass().getName()) for each in _causes(error)]


def _path_of(error: Exception, condition: str) -> str | None:
    """The path that Spark names with an error condition."""
    for found, parameters in _conditions(error):
        if found.startswith(condition):
            return parameters.get("path")
    return None


def _conditions(error: Exception) -> Iterator[tuple[str, dict[str, str]]]:
    """Error conditions and their parameters, as Spark's `SparkThrowable` has them."""
    if isinstance(error, PySparkException):
        yield error.getCondition() or "", error.getMessageParameters() or {}
    elif isinstance(error, Py4JJavaError):
        for each in _causes(error):
            try:
                yield str(each.getCondition() or ""), dict(each.getMessageParameters())
            except Py4JError:  # an exception of Java's own, which has none
                continue


def _causes(error: Py4JJavaError) -> Iterator[Any]:
    cause = error.java_exception
    while cause is not None:
        yield cause
        cause = cause.getCause()
