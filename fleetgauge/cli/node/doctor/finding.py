"""The result of one check."""

import enum
from dataclasses import dataclass


class Level(enum.StrEnum):
    """Severity of a finding."""

    OK = "ok"
    SKIPPED = "skipped"
    """Not checked; the detail gives the reason."""
    WARNING = "warning"
    """Runs, with a limit or a risk that the remedy removes."""
    ERROR = "error"
    """Does not start, or delivers nothing, until the remedy is applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one check.

    Attributes:
        check: name of the check, with what it looked at: `port http://127.0.0.1:9465`.
        level: how much it matters.
        detail: the observation, with its values.
        remedy: one sentence; empty for `ok` and `skipped`.
    """

    check: str
    level: Level
    detail: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if bool(self.remedy) is not (self.level in (Level.WARNING, Level.ERROR)):
            raise ValueError(f"warnings and errors have a remedy, and only those: {self}")


def ok(check: str, detail: str) -> Finding:
    """A check that found nothing wrong."""
    return Finding(check=check, level=Level.OK, detail=detail)


def skipped(check: str, reason: str) -> Finding:
    """A check that was not made."""
    return Finding(check=check, level=Level.SKIPPED, detail=reason)


def warning(check: str, detail: str, remedy: str) -> Finding:
    """See `Level.WARNING`."""
    return Finding(check=check, level=Level.WARNING, detail=detail, remedy=remedy)


def error(check: str, detail: str, remedy: str) -> Finding:
    """See `Level.ERROR`."""
    return Finding(check=check, level=Level.ERROR, detail=detail, remedy=remedy)
