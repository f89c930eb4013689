"""Removes what is too old from a landing zone: our own files of an hour, once the hour has ended long enough ago.

Files of other names stay, and so does a folder that holds one: who compacts a landing zone sees to what that makes.
"""

import re
from datetime import datetime
from typing import Final

import structlog

from base.clock import Time
from exporters.landing.storage import LandingStorage, storage_errors

log = structlog.get_logger(__name__)

MIN_RETENTION_MS: Final = 3_600_000
"""Less would take away what the analysis has not read yet [ms]."""

_LOOK_EVERY_MS: Final = 60_000
_MAX_FILES_A_LOOK: Final = 1_000
"""So that removing holds up no delivery for long; the rest goes at the next look."""
_HOUR_US: Final = 3_600_000_000
_OUR_FILE: Final = re.compile(r"pushes-.*\.parquet")
_PARTITION: Final = re.compile(r"date=(\d{4}-\d{2}-\d{2})/hour=(\d{2})")


class LandingRetention:
    """The upkeep of one landing zone; several nodes may see to the same one.

    Args:
        retention_ms: how long after its end an hour is kept [ms].
        time: the clocks.
    """

    def __init__(self, retention_ms: int, time: Time) -> None:
        self._retention_us = retention_ms * 1_000
        self._time = time
        self._offset_us = time.microseconds() - time.hi_res_clock_ms() * 1_000
        self._due_ms: int | None = None
        self._files = self._bytes = 0

    def counters(self) -> dict[str, int]:
        """What was removed so far: files, and their bytes."""
        return {"retired_files": self._files, "retired_bytes": self._bytes}

    def keep(self, storage: LandingStorage) -> None:
        """Removes what is due, at most once a minute. A failure is logged, and tried again with the next look."""
        now_ms = self._time.hi_res_clock_ms()
        if self._due_ms is not None and now_ms < self._due_ms:
            return
        self._due_ms = now_ms + _LOOK_EVERY_MS
        # A wall clock that jumps ahead after the start removes nothing early, and one that is set back waits.
        now_us = min(self._time.microseconds(), now_ms * 1_000 + self._offset_us)
        try:
            self._remove(storage, now_us - self._retention_us)
        except storage_errors() as error:
            log.warning("old files of the landing zone cannot be removed now", problem=str(error))

    def _remove(self, storage: LandingStorage, before_us: int) -> None:
        left = _MAX_FILES_A_LOOK
        for partition in sorted(storage.partitions()):
            end_us = _end_of(partition)
            if end_us is None or end_us > before_us or left <= 0:
                continue
            found = {name: size for name, size in storage.files(partition).items() if _OUR_FILE.fullmatch(name)}
            names = sorted(found)[:left]
            storage.remove(partition, names)
            left -= len(names)
            size = sum(found[name] for name in names)
            self._files += len(names)
            self._bytes += size
            if names:
                log.info("removed old files of the landing zone", folder=partition, files=len(names), bytes=size)


def _end_of(partition: str) -> int | None:
    """When the hour of a folder ended [us since the epoch]; None where the folder is of no hour.

    >>> _end_of("date=2023-11-14/hour=22")
    1700002800000000
    """
    match = _PARTITION.fullmatch(partition)
    try:
        begin = datetime.strptime(f"{match[1]} {match[2]} +0000", "%Y-%m-%d %H %z") if match else None
    except ValueError:
        return None
    return None if begin is None else round(begin.timestamp()) * 1_000_000 + _HOUR_US
