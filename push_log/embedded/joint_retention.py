"""Keeping several embedded logs within one bound: those of the listener processes of a node (docs/workers.md).

`push.log.retention.bytes` holds for all logs together, and the oldest segment of any goes first. So the log of a busy
process may take the room that a quiet one leaves, and another number of processes at the next start drops nothing that
the bound has room for.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import replace

import structlog

from base.clock import Time
from push_log.embedded.directory import LogDirectory
from push_log.embedded.free_space import free_bytes
from push_log.embedded.settings import PushLogSettings
from push_log.embedded.sqlite import Retention, SqlitePushLogWriter
from push_log.log import PushLogError, PushLogLockedError

log = structlog.get_logger(__name__)


class JointRetention:
    """The upkeep of several logs; for one thread of one process.

    A log without a writer (its listener process is no longer configured) would keep its newest segment for ever, since
    that is never dropped while somebody may write it: it is sealed by beginning an empty one.

    Args:
        settings: what is to be kept; `dir` is not looked at.
        directories: of the logs, by name; see `Retention`.
        abandoned: the names of those that nobody writes any more.
        exporters: the names of the configured exporters.
        time: the clocks.
    """

    def __init__(
        self,
        settings: PushLogSettings,
        directories: Mapping[str, LogDirectory],
        abandoned: Collection[str],
        exporters: Iterable[str],
        *,
        time: Time,
    ) -> None:
        self._retention_bytes = settings.retention_bytes
        self._time = time
        names = tuple(exporters)
        each = {name: replace(settings, dir=directory.path) for name, directory in directories.items()}
        self._logs = {name: Retention(own, names, directories[name]) for name, own in each.items()}
        self._unsealed = {name: each[name] for name in abandoned}

    def run(self, now_ms: int) -> None:
        """See `Retention.run`.

        Raises:
            PushLogError, OSError: a log or its cursors cannot be worked on now; the others were.
        """
        problem: PushLogError | OSError | None = None
        for name, retention in self._logs.items():
            try:
                self._seal(name)
                retention.run(now_ms)
            except (PushLogError, OSError) as error:
                problem = error
        self._drop_oversize()
        if problem is not None:
            raise problem

    def close(self) -> None:
        """Ends the upkeep."""
        for retention in self._logs.values():
            retention.close()

    def _seal(self, name: str) -> None:
        settings = self._unsealed.get(name)
        if settings is None:
            return
        directory = LogDirectory(settings.dir)
        live = directory.live()
        if live and _may_hold_pushes(directory, live[-1]):
            if free_bytes(settings.dir) < settings.min_free_bytes:
                return  # a segment more would take the room that others need; tried again
            try:
                with closing(SqlitePushLogWriter(settings, self._time)):
                    pass
            except PushLogLockedError:
                return  # the process that wrote it is still about to end
            if directory.live() == live:
                return  # there was no room to begin a segment; tried again
            log.info(
                "the log of a listener process that is no longer configured is delivered and then let go", log=name
            )
        del self._unsealed[name]

    def _drop_oversize(self) -> None:
        excess = sum(each.disk_bytes() for each in self._logs.values()) - self._retention_bytes
        while excess > 0:
            ages = [(age, each) for each in self._logs.values() if (age := each.oldest_received_at()) is not None]
            if not ages:
                return  # what is left is being written
            _, oldest = min(ages, key=lambda entry: entry[0])
            before = oldest.disk_bytes()
            oldest.drop_oldest()
            excess -= before - oldest.disk_bytes()


def _may_hold_pushes(directory: LogDirectory, number: int) -> bool:
    try:
        return directory.tail(number, sealed=False).row > 0
    except PushLogError:
        return True  # a damaged one is set aside when it is sealed, and what it takes along is counted
