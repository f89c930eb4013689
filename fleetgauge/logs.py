"""Structured logs: readable lines on a terminal, one JSON object a line otherwise. Always on standard error.

Records of the standard library's `logging` (ours and our libraries') come out in the same form.
"""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logging(level: str, form: Literal["auto", "human", "json"]) -> None:
    """Sets up logging for this process; may be called again to change the level.

    Args:
        level: debug, info, warning or error.
        form: auto chooses human on a terminal and json otherwise.
    """
    threshold = getattr(logging, level.upper())
    render = _renderers(human=form == "human" or (form == "auto" and sys.stderr.isatty()))
    structlog.configure(
        processors=[*_SHARED, *render],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,  # a later call may change the level
    )
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


def _renderers(*, human: bool) -> tuple[Processor, ...]:
    if human:
        return (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),)
    return (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
