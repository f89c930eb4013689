"""Retention of several embedded logs together: those of the listener processes of a node (docs/operate/workers.md).

`push.log.retention.bytes` applies to the sum of all logs, and the oldest segment of any log is deleted first. So the
log of a busy process can use the space that a quiet one leaves, and a restart with another number of processes deletes
nothing that fits.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import replace

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.free_space import free_bytes
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.embedded.writer import SqlitePushLogWriter
from fleetgauge.push_log.log import PushLogError, PushLogLockedError

log = get_logger(__name__)


class JointRetention:
    """The retention of several logs. Not thread-safe, and only one process may run it.

    The head of a log is never deleted, since a process may write it. So the head of a log without a writer (its
    listener process is no longer configured) is sealed by opening an empty segment after it.

    Args:
        settings: the bounds; `dir` is ignored.
        directories: the logs by name; see `Retention`.
        abandoned: names of the logs that no process writes any more.
        exporters: names of the configured exporters.
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
            PushLogError, OSError: a log or its cursors are not accessible now; the other logs were processed.
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
        """Closes the logs' databases."""
        for retention in self._logs.values():
            retention.close()

    def _seal(self, name: str) -> None:
        settings = self._unsealed.get(name)
        if settings is None:
            return
        directory = LogDirectory(settings.dir)
        live = directory.live()
        if live and directory.may_hold_pushes(live[-1]):
            if free_bytes(settings.dir) < settings.min_free_bytes:
                return  # no room for another segment; tried again by the next run
            try:
                with closing(SqlitePushLogWriter(settings, self._time)):
                    pass
            except PushLogLockedError:
                return  # its former writer is still shutting down
            if directory.live() == live:
                return  # there was no room to open a segment; tried again by the next run
            log.info(
                "push_log.abandoned_log_sealed",
                message="its listener process is no longer configured; its pushes are delivered and then deleted",
                log=name,
            )
        del self._unsealed[name]

    def _drop_oversize(self) -> None:
        excess = sum(each.disk_bytes() for each in self._logs.values()) - self._retention_bytes
        while excess > 0:
            ages = [(age, each) for each in self._logs.values() if (age := each.oldest_received_at()) is not None]
            if not ages:
                return  # only heads are left
            _, oldest = min(ages, key=lambda entry: entry[0])
            before = oldest.disk_bytes()
            oldest.drop_oldest()
            excess -= before - oldest.disk_bytes()
