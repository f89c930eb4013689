"""The age of numbered items (segments, dead letters), measured on the monotonic clock.

The wall clock may jump (an operator, NTP, a virtual machine that was suspended). So elapsed time is counted on the
monotonic clock, which all processes of one boot of the machine share, and kept in a small database beside the items.
The time between two boots does not count, since only the wall clock measures it: items may be kept longer than their
retention, never shorter.

Item numbers grow. A mark records that all items up to a number existed at some elapsed time; with a thousand marks per
retention, an age is exact to a thousandth of the retention.
"""

import functools
import uuid
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from fleetgauge.push_log.embedded.kept_database import open_kept, transaction
from fleetgauge.push_log.embedded.segment import translated

_CREATE: Final = """
CREATE TABLE elapsed (ms INTEGER NOT NULL, boot TEXT NOT NULL, monotonic_ms INTEGER NOT NULL);
INSERT INTO elapsed VALUES (0, '', 0);
CREATE TABLE marks (number INTEGER PRIMARY KEY, elapsed_ms INTEGER NOT NULL)
"""
_MARKS: Final = 1_000
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class _Mark(NamedTuple):
    """All items up to `number` existed at the elapsed time `elapsed_ms` [ms]."""

    number: int
    elapsed_ms: int


@functools.cache
def boot_id() -> str:
    """Identifies the boot of the machine, and so its monotonic clock; without a boot id, identifies this process."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return uuid.uuid4().hex


class Ages:
    """The marks of one set of items. Not thread-safe; several processes may open the same file.

    Args:
        path: the database's file; created when it is first needed.
        retention_ms: age from which on items are expired [ms].
        boot: identifies the monotonic clock of `aged`; see `boot_id`.
    """

    def __init__(self, path: Path, retention_ms: int, *, boot: str | None = None) -> None:
        self._path = path
        self._retention_ms = retention_ms
        self._step_ms = max(1, retention_ms // _MARKS)
        self._boot = boot or boot_id()
        self._opened: apsw.Connection | None = None

    def aged(self, newest: int, now_ms: int) -> int:
        """Records that all items up to number `newest` exist now, and returns the newest expired one.

        Args:
            newest: the highest number so far; a lower one than before means that the numbers restarted.
            now_ms: monotonic time [ms].

        Returns:
            The highest number that has existed for the retention; 0 if there is none.

        Raises:
            PushLogError: the database cannot be used now.
        """
        with translated(self._path):
            elapsed_ms, written_ms = self._elapsed(now_ms)
            last = self._mark("ORDER BY number DESC")
            is_due = written_ms is None or elapsed_ms - written_ms >= self._step_ms
            began_again = newest < last.number
            is_new = newest > last.number and (not last.number or elapsed_ms - last.elapsed_ms >= self._step_ms)
        if is_due or is_new or began_again:
            self._write(newest, elapsed_ms, now_ms, began_again=began_again)
        with translated(self._path):
            return self._aged_by(elapsed_ms).number

    def close(self) -> None:
        """Closes the database."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _connection(self) -> apsw.Connection:
        if self._opened is None:
            self._opened = open_kept(
                self._path,
                _CREATE,
                (),
                check="SELECT sum(number) FROM marks",
                consequence="ages are measured from now on",
            )
        return self._opened

    def _elapsed(self, now_ms: int) -> tuple[int, int | None]:
        """The elapsed time, and the part of it that is stored [ms]; None for the latter after a boot."""
        ms, boot, monotonic_ms = self._connection.execute("SELECT ms, boot, monotonic_ms FROM elapsed").get
        if boot != self._boot:
            return ms, None
        return ms + max(0, now_ms - monotonic_ms), ms

    def _mark(self, which: str, *bindings: int) -> _Mark:
        row = self._connection.execute(
            f"SELECT number, elapsed_ms FROM marks {which} LIMIT 1",  # noqa: S608  constants of this class
            bindings,
        ).get
        return _Mark(*(row or (0, 0)))

    def _aged_by(self, elapsed_ms: int) -> _Mark:
        return self._mark("WHERE elapsed_ms <= ? ORDER BY number DESC", elapsed_ms - self._retention_ms)

    def _write(self, newest: int, elapsed_ms: int, now_ms: int, *, began_again: bool) -> None:
        """Stores the elapsed time and a mark for now; of the expired marks, only the newest is kept."""
        connection = self._connection
        with transaction(connection, self._path):
            connection.execute(
                "UPDATE elapsed SET ms = ?, boot = ?, monotonic_ms = ?", (elapsed_ms, self._boot, now_ms)
            )
            if began_again:
                connection.execute("DELETE FROM marks")
            if newest:
                connection.execute("INSERT INTO marks VALUES (?, ?) ON CONFLICT DO NOTHING", (newest, elapsed_ms))
            connection.execute("DELETE FROM marks WHERE number < ?", (self._aged_by(elapsed_ms).number,))
