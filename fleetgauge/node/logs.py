"""Structured logs: readable lines on a terminal, one JSON object per line otherwise. Always on standard error.

Records of the standard library's `logging`, which libraries use, have the same form. A line that cannot be written
(disk full, reader gone) is dropped without an error, and the next line has the number of those lost.
"""

import io
import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.library_log import log_through
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.base.redaction import hide
from fleetgauge.terminal.text import printable

log = structlog.get_logger(__name__)

_SHOWN: Final = 200
"""Length of what a line shows of an error that cannot be raised [characters]."""
_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logging(level: str, form: Literal["auto", "human", "json"], secrets: Iterable[str] = ()) -> None:
    """Sets up logging for this process; may be called again to change the level.

    Args:
        level: debug, info, warning or error.
        form: auto chooses human on a terminal and json otherwise.
        secrets: texts that no line may show, whichever library or plugin writes it.
    """
    threshold = getattr(logging, level.upper())
    kept = tuple(secrets)

    def hide_secrets(_logger: WrappedLogger, _method: str, line: EventDict) -> str:
        return hide(str(line), kept)

    render = (*_renderers(human=form == "human" or (form == "auto" and sys.stderr.isatty())), hide_secrets)
    lines = _Lines(sys.stderr)
    structlog.configure(
        processors=[*_SHARED, lines.add_lost, *render],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lines,
        cache_logger_on_first_use=False,  # a later call may change the level
    )
    log_through(structlog.get_logger)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)


def log_unraisable_errors() -> None:
    """Logs errors that Python cannot raise, at most one line per minute and type: a peer can cause them, by a TLS
    server name that is not ASCII.
    """
    limiter, clock = LogLimiter(), SystemTime()

    def report(error: "sys.UnraisableHookArgs") -> None:
        count = limiter.admit(error.exc_type.__name__, clock.hi_res_clock_ms())
        if count:
            raised = error.exc_value if error.exc_traceback is not None else None
            shown = {"error": repr(error.exc_value)[:_SHOWN], "within": repr(error.object)[:_SHOWN]}
            log.error("process.unraisable_error", **shown, cases=count, exc_info=raised)

    sys.unraisablehook = report


def flush_logs() -> None:
    """Flushes standard error; needed before `os._exit`, which does not."""
    with suppress(OSError, ValueError):
        sys.stderr.flush()


class _Lines:
    """A logger factory that writes to `stream`, and counts the lines lost since the last one that was written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._logger = structlog.WriteLogger(self)  # type: ignore[arg-type]  # uses write and flush alone
        self._lost = 0

    def __call__(self, *_: object) -> structlog.WriteLogger:
        return self._logger

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: it is closed
            self._lost += 1
        else:
            self._lost = 0

    def flush(self) -> None:
        """Does nothing: `write` flushes each line."""

    def add_lost(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """A processor: adds the number of lines that were lost before this one."""
        return {**event, "lines_lost": self._lost} if self._lost else event


def _renderers(*, human: bool) -> tuple[Processor, ...]:
    if human:
        colours = sys.stderr.isatty()
        return (_make_printable, structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=_write_traceback))
    return (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())


def _make_printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A processor: makes text fields printable, since clients choose some; the renderer shows others by their repr."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _write_traceback(out: TextIO, exc_info: ExcInfo) -> None:
    """Writes the traceback, whose last line may quote a client, in printable form."""
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    out.write("\n".join(map(printable, text.getvalue().split("\n"))))
