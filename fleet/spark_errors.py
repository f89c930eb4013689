"""The sentence in Spark's reports that an operator can act on."""

import re

from py4j.protocol import Py4JJavaError

from fleet.errors import first_line

_UNREADABLE_FILE = re.compile(r"\[FAILED_READ_FILE\S*\] .*?reading file (\S+?)\.?\s")


def what_failed(error: Exception) -> str:
    """One line about an exception of PySpark or py4j; names the file where one could not be read."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    unreadable = _UNREADABLE_FILE.search(text)
    if unreadable:
        return f"{unreadable[1]} cannot be read: take it out of the landing zone, or let its name begin with _"
    return first_line(Exception(text)) if text else type(error).__name__
