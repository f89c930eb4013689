"""The log of the libraries: by `logging` of the standard library, or by what their process installs.

An application that imports `telemetry` or `quotas` decides itself what is shown: the logger `fleetgauge` has a
`NullHandler`, so that nothing is printed unless the application configures `logging`. The processes of
`fleetgauge` install structlog instead (`log_through`), which renders events and fields for operators.
"""

import logging
import traceback
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

_NO_FIELDS: Mapping[str, Any] = {}
_installed: Callable[[str], Any] | None = None


def log_through(factory: Callable[[str], Any]) -> None:
    """Sets the logger of this process: `factory` returns a logger with structlog's methods for a module's name."""
    global _installed  # noqa: PLW0603  # one log per process, as with `logging`
    _installed = factory


def get_logger(name: str) -> "LibraryLog":
    """Returns the log of a module; `name` is its `__name__`."""
    package = logging.getLogger(name.partition(".")[0])
    if not any(isinstance(each, logging.NullHandler) for each in package.handlers):
        package.addHandler(logging.NullHandler())
    return LibraryLog(name, {})


class LibraryLog:
    """A module's log: short stable events with fields, and structlog's names of methods.

    By `logging`, a record's message is the event and its fields as text; its attributes `event` and `fields` hold them
    as they are.
    """

    __slots__ = ("_bound", "_name", "_private")

    def __init__(self, name: str, bound: Mapping[str, Any], private: Mapping[str, Any] = _NO_FIELDS) -> None:
        self._name = name
        self._bound = bound
        self._private = private

    def bind(self, **fields: Any) -> "LibraryLog":
        """Returns the same log, whose lines all have these fields, too."""
        return LibraryLog(self._name, {**self._bound, **fields}, self._private)

    def bind_private(self, **fields: Any) -> "LibraryLog":
        """`bind` for fields that may quote a client, such as the error of a reporter that was given its payload: an
        installed log shows them; `logging` shows only type and place of their `exc_info`.
        """
        return LibraryLog(self._name, self._bound, {**self._private, **fields})

    def debug(self, event: str, **fields: Any) -> None:
        """Logs an event that helps to find a fault in the program."""
        self._write("debug", logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Logs an event that an operator may want to know."""
        self._write("info", logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Logs an event that an operator should look at."""
        self._write("warning", logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Logs a fault."""
        self._write("error", logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Logs a fault with the exception that is being handled."""
        self._write("error", logging.ERROR, event, {"exc_info": True, **fields})

    def _write(self, method: str, level: int, event: str, fields: Mapping[str, Any]) -> None:
        if _installed is not None:
            getattr(_installed(self._name), method)(event, **{**self._bound, **fields, **self._private})
            return
        logger = logging.getLogger(self._name)
        if not logger.isEnabledFor(level):
            return
        shown = {**self._bound, **fields, **_shown(self._private)}
        exc_info = shown.pop("exc_info", None)
        text = " ".join([event, *(f"{name}={value!r}" for name, value in shown.items())])
        # Fields may contain a "%": the text is an argument, not the format.
        logger.log(level, "%s", text, exc_info=exc_info, extra={"event": event, "fields": shown}, stacklevel=3)


def _shown(private: Mapping[str, Any]) -> dict[str, str]:
    """Part of private fields that `logging` shows: the type of the exception, and where it was raised."""
    error = private.get("exc_info")
    if not isinstance(error, BaseException):
        return {}
    return {"error": type(error).__qualname__, "raised_in": _place(error.__traceback__)}


def _place(trace: TracebackType | None) -> str:
    """File, line and function of the innermost frame. No text of the exception, no source line, no variable."""
    if trace is None:
        return ""
    frame = traceback.extract_tb(trace)[-1]
    return f"{frame.filename}:{frame.lineno} ({frame.name})"
