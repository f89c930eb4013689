"""Deletes old files of a landing zone: our own files of an hour, a set time after the end of the hour.

Files with other names stay, and so do their folders: a job that compacts a landing zone manages its own files.
"""

import re
from datetime import datetime
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.exporters.landing.storage import LandingStorage, storage_errors

log = get_logger(__name__)

MIN_RETENTION_MS: Final = 3_600_000
"""Less would delete files that the analysis has not read yet [ms]."""

_CHECK_EVERY_MS: Final = 60_000
_MAX_FILES_PER_CHECK: Final = 1_000
"""Limit per check, so that deleting does not delay delivery for long; the rest follows at the next check."""
_HOUR_US: Final = 3_600_000_000
_PARTITION: Final = re.compile(r"date=(\d{4}-\d{2}-\d{2})/hour=(\d{2})")


class LandingRetention:
    """The retention of one landing zone, which several nodes may share.

    Args:
        retention_ms: how long after its end an hour is kept [ms].
        time: the clocks.
        prefix: that names of our files begin with.
    """

    def __init__(self, retention_ms: int, time: Time, *, prefix: str = "pushes") -> None:
        self._our_file = re.compile(rf"{prefix}-.*\.parquet")
        self._retention_us = retention_ms * 1_000
        self._time = time
        self._offset_us = time.microseconds() - time.hi_res_clock_ms() * 1_000
        self._due_ms: int | None = None
        self._files = self._bytes = 0

    def counters(self) -> dict[str, int]:
        """Number of deleted files, and their bytes."""
        return {"retired_files": self._files, "retired_bytes": self._bytes}

    def keep(self, storage: LandingStorage) -> None:
        """Deletes old files, at most once a minute. A failure is logged; the next check tries again."""
        now_ms = self._time.hi_res_clock_ms()
        if self._due_ms is not None and now_ms < self._due_ms:
            return
        self._due_ms = now_ms + _CHECK_EVERY_MS
        # A wall clock that jumps ahead after the start deletes nothing early, and one that is set back delays deletion.
        now_us = min(self._time.microseconds(), now_ms * 1_000 + self._offset_us)
        try:
            self._remove(storage, now_us - self._retention_us)
        except storage_errors() as error:
            log.warning("landing.retention_failed", problem=str(error))

    def _remove(self, storage: LandingStorage, before_us: int) -> None:
        left = _MAX_FILES_PER_CHECK
        for partition in sorted(storage.partitions()):
            end_us = _end_of(partition)
            if end_us is None or end_us > before_us or left <= 0:
                continue
            sizes = {name: size for name, size in storage.files(partition).items() if self._our_file.fullmatch(name)}
            names = sorted(sizes)[:left]
            storage.remove(partition, names)
            left -= len(names)
            size = sum(sizes[name] for name in names)
            self._files += len(names)
            self._bytes += size
            if names:
                log.info("landing.files_deleted", folder=partition, files=len(names), bytes=size)


def _end_of(partition: str) -> int | None:
    """End of a folder's hour [us since the epoch]; None if the name is not that of an hour.

    >>> _end_of("date=2023-11-14/hour=22")
    1700002800000000
    """
    match = _PARTITION.fullmatch(partition)
    try:
        begin = datetime.strptime(f"{match[1]} {match[2]} +0000", "%Y-%m-%d %H %z") if match else None
    except ValueError:
        return None
    return None if begin is None else round(begin.timestamp()) * 1_000_000 + _HOUR_US
