"""The sentence in Spark's reports that an operator can act on."""

import re
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError

from fleet.errors import first_line

_UNREADABLE_FILE = re.compile(r"\[FAILED_READ_FILE\S*\] .*?reading file (\S+?)\.?\s")
_PYTHON_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<said>\S.*)")
_MISSING_FILE = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE")


def what_failed(error: Exception) -> str:
    """One line about an exception of PySpark or py4j; names the file where one could not be read."""
    text = _text(error)
    unreadable = _UNREADABLE_FILE.search(text)
    if unreadable:
        return f"{unreadable[1]} cannot be read: take it out of the landing zone, or let its name begin with _"
    if traces := _PYTHON_TRACE.findall(text):
        return f"Python on an executor raised {traces[-1].strip()}"
    return first_line(Exception(text)) if text else type(error).__name__


def unreadable_file(error: Exception) -> str | None:
    """The path of the file that could not be read, without its scheme where it lies on this machine; None if the error
    is another one.
    """
    found = _UNREADABLE_FILE.search(_text(error))
    if found:
        return plain_path(unquote(found[1]))
    missing = _MISSING_FILE.search(_text(error))
    return plain_path(missing[1]) if missing else None


def plain_path(uri: str) -> str:
    """A file of this machine without its scheme, which has one or three slashes as the library likes; else the URI.

    >>> plain_path("file:///tmp/a"), plain_path("file:/tmp/a"), plain_path("s3a://b/a")
    ('/tmp/a', '/tmp/a', 's3a://b/a')
    """
    return re.sub(r"^file:/+", "/", uri)


def _text(error: Exception) -> str:
    return str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
