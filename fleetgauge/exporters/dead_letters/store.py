"""The store of dead letters: permanently rejected pushes, until they are replayed, dropped or too old.

One table for all exporters of a data directory, for either kind of push log. A letter is stored before the cursor
passes its push; a push that is delivered again after a crash and rejected again stays one letter. The command line
requests a replay here, and the exporter's own pipeline does it: the letter is deleted when its push was delivered.

The table is bounded in bytes and in age. Beyond a bound the letter with the oldest rejection is deleted and counted.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import apsw

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.exporters.dead_letters.letter import DeadLetter, DeadLetterSettings, DeadLetterStats, UnreadableLetter
from fleetgauge.exporters.dead_letters.rows import COUNTS, CREATE, LETTER, MIGRATIONS, PUT, LetterCodec
from fleetgauge.exporters.exporter import Refusal, bounded_text
from fleetgauge.push_log.embedded.kept_database import open_kept, set_aside, transaction
from fleetgauge.push_log.embedded.retention.ages import Ages
from fleetgauge.push_log.embedded.segment import SegmentCorruptError, translated
from fleetgauge.push_log.log import PushLogError

log = get_logger(__name__)

_LEASE_MS: Final = 30_000
"""Time for which a replay belongs to the process that began it [ms]; afterwards any process may take it."""
_LONGEST_WAIT_MS: Final = 300_000
"""Longest wait of a replay [ms]; a longer one was written before the clock was set back, and counts as due."""
_DUE: Final = "replay_not_before IS NOT NULL AND replay_not_before NOT BETWEEN ? AND ?"
_LETTER_OVERHEAD_BYTES: Final = 2_048
"""Approximate maximum size of a letter without its payload: the push's context, and entries in two indices [B]."""
_AGED_AT_ONCE: Final = 1_000

UNREADABLE: Final = "unreadable"
"""Reason of a letter whose push was found damaged in a replay."""


class DeadLetters:
    """The table; thread-safe. Several processes may have it open.

    It is opened, and created, on first use: a disk without room for it stops no exporter that has no dead letters.

    Args:
        settings: its location and bounds.
        time: the clocks.
    """

    def __init__(self, settings: DeadLetterSettings, time: Time) -> None:
        self._settings = settings
        self._path = settings.path
        self._time = time
        self._lock = threading.RLock()
        self._codec = LetterCodec()
        self._ages = Ages(self._path.with_name(f"{self._path.stem}-ages.db"), settings.retention_ms)
        self._opened: apsw.Connection | None = None
        self._counted: dict[str, DeadLetterStats] = {}
        self._counted_at: tuple[int, int] | None = None

    def put(self, exporter: str, refusals: Sequence[Refusal]) -> None:
        """Stores rejected pushes, all or nothing; deletes the oldest letters to make room.

        Raises:
            PushLogFullError: the disk is full.
            PushLogError: it cannot be written now; the caller may retry.
        """
        now_us = self._time.microseconds()
        with self._transaction():
            for refusal in refusals:
                self._put(exporter, refusal, now_us)

    def replayable(self, exporter: str, max_bytes: int, max_records: int) -> tuple[DeadLetter, ...]:
        """Takes letters whose replay was requested, the oldest first; no other process may take them for a while.

        A damaged letter is skipped and logged, its request is withdrawn, and its reason becomes `UNREADABLE`.

        Args:
            exporter: the exporter's name.
            max_bytes: limit of their decompressed metrics [B]; a larger letter comes alone.
            max_records: limit of their number.

        Raises:
            PushLogError: it cannot be read or written now.
        """
        now_ms = self._time.milliseconds()
        letters: list[DeadLetter] = []
        damaged: list[UnreadableLetter] = []
        size_bytes = 0
        with self._transaction(), closing(self._connection.cursor()) as due:
            due.execute(
                f"SELECT {LETTER} FROM letters WHERE exporter = ? AND {_DUE} ORDER BY id LIMIT ?",  # noqa: S608
                (exporter, *_waiting(now_ms), max_records),
            )
            for row in due:  # one by one: all of them may exceed the memory
                size_bytes += row[-2]
                if letters and size_bytes > max_bytes:
                    break
                letter = self._codec.letter(row)
                if isinstance(letter, UnreadableLetter):
                    damaged.append(letter)
                else:
                    letters.append(letter)
            due.close()
            self._wait_until(now_ms + _LEASE_MS, letters)
            self._mark_unreadable(damaged)
        return tuple(letters)

    def put_off(self, letters: Iterable[DeadLetter], for_ms: int) -> None:
        """Postpones a failed replay by `for_ms`, at most by five minutes.

        Raises:
            PushLogError: it cannot be written now; the replay is repeated all the same.
        """
        with self._transaction():
            self._wait_until(self._time.milliseconds() + min(for_ms, _LONGEST_WAIT_MS), letters)

    def delivered(self, exporter: str, push_ids: Iterable[str]) -> int:
        """Deletes the letters whose pushes were delivered; returns their number.

        Raises:
            PushLogError: it cannot be written now; the pushes are delivered again.
        """
        with self._transaction():
            deleted = sum(
                self._delete("exporter = ? AND push_id = ?", (exporter, push_id)).get(exporter, 0)
                for push_id in push_ids
            )
            self._count("replayed", {exporter: deleted})
        return deleted

    def asked(self) -> frozenset[str]:
        """The exporters that have letters to replay now.

        Raises:
            PushLogError: it cannot be read now.
        """
        rows = self._rows(
            f"SELECT DISTINCT exporter FROM letters WHERE {_DUE}",  # noqa: S608
            _waiting(self._time.milliseconds()),
        )
        return frozenset(row[0] for row in rows)

    def ask_replay(self, exporter: str, ids: Sequence[int] = ()) -> list[int]:
        """Requests a replay of an exporter's letters, of all if no ids are given; returns their ids.

        Raises:
            PushLogError: it cannot be written now.
        """
        where, bindings = _chosen(exporter, "", ids)
        with self._transaction():
            rows = self._rows(
                f"UPDATE letters SET replay_not_before = 0 WHERE {where} RETURNING id",  # noqa: S608
                bindings,
            )
        return sorted(row[0] for row in rows)

    def drop(self, exporter: str, reason: str = "", ids: Sequence[int] = ()) -> int:
        """Deletes letters, and returns their number.

        Raises:
            PushLogError: it cannot be written now.
        """
        with self._transaction():
            deleted = self._delete(*_chosen(exporter, reason, ids))
            self._count("dropped", deleted)
        return sum(deleted.values())

    def drop_aged(self) -> None:
        """Deletes letters that are too old both by the wall clock and by the monotonic time that `Ages` has counted.

        Cheap if there are none. A wall clock that jumps deletes nothing early.

        Raises:
            PushLogError: it cannot be written now.
        """
        aged = "refused_at < ? AND id <= ?"
        oldest_us = (self._time.milliseconds() - self._settings.retention_ms) * 1_000
        with self._lock:
            newest = max((row[0] for row in self._rows("SELECT seq FROM sqlite_sequence")), default=0)
            if not newest:
                return
            bounds = (oldest_us, self._ages.aged(newest, self._time.hi_res_clock_ms()))
        if not self._rows(f"SELECT 1 FROM letters WHERE {aged} LIMIT 1", bounds):  # noqa: S608
            return
        with self._transaction():
            deleted = self._delete(
                f"id IN (SELECT id FROM letters WHERE {aged} LIMIT ?)",  # noqa: S608
                (*bounds, _AGED_AT_ONCE),
            )
            self._count("lost_by_age", deleted)
        log.warning("dead_letters.expired", bound="dead.letter.retention.ms", letters=deleted)

    def letters(
        self, *, exporter: str = "", reason: str = "", ids: Sequence[int] = (), before: int | None = None, limit: int
    ) -> list[DeadLetter | UnreadableLetter]:
        """Returns letters, the newest first, as a list: a slow reader blocks no writer.

        Args:
            exporter: only of this exporter, unless empty.
            reason: only with this reason, unless empty.
            ids: only these, unless empty.
            before: only with smaller ids than this.
            limit: maximum number.

        Raises:
            PushLogError: it cannot be read now.
        """
        where, bindings = _chosen(exporter, reason, ids)
        if before is not None:
            where, bindings = f"{where} AND id < ?", (*bindings, before)
        with self._lock:
            rows = self._rows(
                f"SELECT {LETTER} FROM letters WHERE {where} ORDER BY id DESC LIMIT ?",  # noqa: S608
                (*bindings, limit),
            )
            return [self._codec.letter(row) for row in rows]

    def ids(self, exporter: str, *, reason: str = "", replaying: bool = False) -> frozenset[int]:
        """The ids of an exporter's letters, without reading the letters.

        Args:
            exporter: the exporter's name.
            reason: only with this reason, unless empty.
            replaying: only those whose replay was requested and has not ended.

        Raises:
            PushLogError: it cannot be read now.
        """
        where, bindings = _chosen(exporter, reason, ())
        asked = " AND replay_not_before IS NOT NULL" if replaying else ""
        return frozenset(
            row[0]
            for row in self._rows(f"SELECT id FROM letters WHERE {where}{asked}", bindings)  # noqa: S608
        )

    def stats(self) -> dict[str, DeadLetterStats]:
        """Counts by exporter. Cheap to call once a second: counted again only after a change.

        Raises:
            PushLogError: it cannot be read now.
        """
        with self._lock:
            [[of_others]] = self._rows("PRAGMA data_version")
            version = (of_others, self._connection.total_changes())
            if version != self._counted_at:
                self._counted, self._counted_at = self._count_all(), version
            return dict(self._counted)

    def reasons(self) -> dict[str, dict[str, int]]:
        """Number of letters by exporter and reason.

        Raises:
            PushLogError: it cannot be read now.
        """
        counts: dict[str, dict[str, int]] = {}
        for exporter, reason, count in self._rows(
            "SELECT exporter, reason, count(*) FROM letters GROUP BY 1, 2 ORDER BY 3 DESC"
        ):
            counts.setdefault(exporter, {})[reason] = count
        return counts

    def close(self) -> None:
        """Closes the database."""
        with self._lock:
            self._ages.close()
            if self._opened is not None:
                self._opened.close()
                self._opened = self._counted_at = None

    @property
    def _connection(self) -> apsw.Connection:
        if self._opened is None:
            self._opened = open_kept(
                self._path,
                CREATE,
                MIGRATIONS,
                check="SELECT sum(replayed) FROM counts",
                consequence="the store of dead letters is now empty",
            )
        return self._opened

    def _count_all(self) -> dict[str, DeadLetterStats]:
        there = {
            row[0]: dict(zip(("letters", "bytes", "oldest_refused_at"), row[1:], strict=True))
            for row in self._rows(
                "SELECT exporter, count(*), sum(metrics_bytes), min(refused_at) FROM letters GROUP BY exporter"
            )
        }
        counts = {
            row[0]: dict(zip(COUNTS, row[1:], strict=True))
            for row in self._rows(f"SELECT exporter, {', '.join(COUNTS)} FROM counts")  # noqa: S608  names of our own
        }
        return {
            exporter: DeadLetterStats(**there.get(exporter, {}), **counts.get(exporter, {}))
            for exporter in sorted({*there, *counts})
        }

    def _put(self, exporter: str, refusal: Refusal, now_us: int) -> None:
        row = self._codec.row(exporter, refusal, now_us)
        if self._make_room(len(row["metrics"]) + _LETTER_OVERHEAD_BYTES):
            self._connection.execute(PUT, row)
            return
        self._count("lost_by_bytes", {exporter: 1})
        log.warning(
            "dead_letters.letter_too_large",
            bound="dead.letter.retention.bytes",
            push_id=refusal.record.push_id,
        )

    def _make_room(self, size_bytes: int) -> bool:
        """Deletes the oldest letters until `size_bytes` more fit; False if they never would."""
        if size_bytes > self._settings.retention_bytes // 2:
            return False
        while self._used_bytes() + size_bytes > self._settings.retention_bytes:
            deleted = self._delete("id = (SELECT id FROM letters ORDER BY refused_at, id LIMIT 1)", ())
            if not deleted:
                return True  # only the empty tables are left
            self._count("lost_by_bytes", deleted)
        return True

    def _used_bytes(self) -> int:
        """Size of the letters in the file, without free pages."""
        page_bytes, pages, free = (
            int(self._connection.execute(f"PRAGMA {name}").get)
            for name in ("page_size", "page_count", "freelist_count")
        )
        return page_bytes * (pages - free)

    def _delete(self, where: str, bindings: tuple[int | str, ...]) -> dict[str, int]:
        rows = self._rows(f"DELETE FROM letters WHERE {where} RETURNING exporter", bindings)  # noqa: S608
        return Counter(str(row[0]) for row in rows)

    def _count(self, name: str, by_exporter: Mapping[str, int]) -> None:
        for exporter, count in by_exporter.items():
            self._connection.execute(
                f"INSERT INTO counts (exporter, {name}) VALUES (?, ?) "  # noqa: S608  names of our own
                f"ON CONFLICT (exporter) DO UPDATE SET {name} = {name} + excluded.{name}",
                (exporter, count),
            )

    def _wait_until(self, not_before_ms: int, letters: Iterable[DeadLetter]) -> None:
        self._connection.executemany(
            "UPDATE letters SET replay_not_before = ? WHERE id = ? AND replay_not_before IS NOT NULL",
            [(not_before_ms, letter.id) for letter in letters],
        )

    def _mark_unreadable(self, damaged: Sequence[UnreadableLetter]) -> None:
        for letter in damaged:
            self._connection.execute(
                "UPDATE letters SET reason = ?, detail = ?, replay_not_before = NULL WHERE id = ?",
                (
                    UNREADABLE,
                    bounded_text(f"{letter.problem}; it was refused for {letter.reason}: {letter.detail}"),
                    letter.id,
                ),
            )
            log.error("dead_letters.letter_unreadable", id=letter.id, problem=letter.problem)

    def _rows(self, statement: str, bindings: tuple[int | str, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            connection = self._connection
            try:
                with translated(self._path):
                    return connection.execute(statement, bindings).fetchall()
            except SegmentCorruptError:
                if not connection.in_transaction:
                    self._replace_damaged()
                raise

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            connection = self._connection
            try:
                with transaction(connection, self._path):
                    yield
            except SegmentCorruptError:
                self._replace_damaged()
                raise

    def _replace_damaged(self) -> None:
        """Renames a damaged table, so that an operator can examine it, and begins a new one."""
        log.error("dead_letters.damaged", message="the damaged store was renamed", file=str(self._path))
        self.close()
        set_aside(self._path)


def _chosen(exporter: str, reason: str, ids: Sequence[int]) -> tuple[str, tuple[int | str, ...]]:
    """A condition and its bindings; empty arguments select everything."""
    texts = {column: text for column, text in (("exporter", exporter), ("reason", reason)) if text}
    conditions = ["1", *(f"{column} = ?" for column in texts)]
    if ids:
        conditions.append(f"id IN ({', '.join('?' * len(ids))})")
    return " AND ".join(conditions), (*texts.values(), *ids)


def _waiting(now_ms: int) -> tuple[int, int]:
    """The bindings of `_DUE`: the range of times until which a replay is postponed at `now_ms` (wall time)."""
    return now_ms + 1, now_ms + _LONGEST_WAIT_MS


def existing(settings: DeadLetterSettings, time: Time) -> DeadLetters:
    """Opens an existing table, for the command line.

    Raises:
        PushLogError: there is none.
    """
    if not settings.path.exists():
        raise PushLogError(
            f"there are no dead letters in {settings.path.parent}: no destination has rejected a push yet"
        )
    return DeadLetters(settings, time)
