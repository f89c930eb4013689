"""Known folders of a landing zone: the table `folders`, with which most of a zone need not be listed again.

A folder that was listed is passed over if nothing was written into it since. On this machine its file system says so:
the time that its entries changed last, if that was an hour before it was listed. In S3 nothing does: there, days before
yesterday are passed over. The first run of a day (UTC) lists everything, so that what comes into older days, or what a
file system does not tell, waits for that run at most.

Of what is listed, folders with the names and sizes that they had are of no further interest: the ledger is read for
the others alone.
"""

from collections.abc import Collection, Iterable
from datetime import date, datetime, timedelta
from typing import Any, Final

from fleetgauge.fleet.arrow import pa
from fleetgauge.fleet.pipeline.ledger import day_of
from fleetgauge.fleet.pipeline.spans import from_micros
from fleetgauge.fleet.source.zone_files import Folder
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

_QUIET: Final = timedelta(hours=1)
"""Longer than the difference between the clocks of a file server and this machine, and than the resolution of its
times.
"""

_OPEN_DAYS: Final = 2
"""Days, including today, that every run lists if a file system reports no changes of folders."""


class KnownFolders:
    """Folders that earlier runs and this one have seen in a zone.

    Args:
        store: the tables.
        source: names the zone.
        now: the time.
        but: days whose files are to be read again.
    """

    def __init__(self, store: Store, source: str, now: datetime, but: Collection[date] = ()) -> None:
        self._store = store
        self._source = source
        self._now = now
        self._ledger = store.log(catalog.LEDGER).table_id() if store.has(catalog.LEDGER) else None
        rows = [row for row in store.rows(catalog.FOLDERS) if row["ledger"] == self._ledger]
        self._others = [row for row in rows if row["source"] != source]
        self._known = {row["folder"]: row for row in rows if row["source"] == source}
        self._before = {path: row for path, row in self._known.items() if day_of(f"{path}/") not in but}
        self._below = _below(self._before)
        self._after: dict[str, dict[str, Any]] = {}

    def passes_over(self, path: str, changed_us: int | None) -> bool:
        """True for a folder that need not be listed; keeps it and everything below it as known."""
        known = [self._before[folder] for folder in self._below.get(path, ())]
        if not known or any(row["listed_on"] != self._now.date() for row in known):
            return False
        if changed_us is None:
            day = day_of(f"{path}/")
            is_closed = day is not None and day <= self._now.date() - timedelta(days=_OPEN_DAYS)
        else:
            is_closed = len(known) == 1 and known[0]["changed_at"] == from_micros(changed_us)
        if is_closed:
            self._after |= {row["folder"]: row for row in known}
        return is_closed

    def is_as_known(self, folder: Folder) -> bool:
        """True for a folder whose files are the known ones and were all read; records its files."""
        changed_at = None if folder.changed_us is None else from_micros(folder.changed_us)
        is_quiet = changed_at is not None and self._now - changed_at >= _QUIET
        self._after[folder.path] = {
            "source": self._source,
            "folder": folder.path,
            "digest": folder.digest,
            "listed_on": self._now.date(),
            "changed_at": changed_at if is_quiet else None,
        }
        return folder.path in self._before and self._before[folder.path]["digest"] == folder.digest

    def leave_open(self, path: str) -> None:
        """Makes every run list a folder."""
        self._after.pop(path, None)

    def forget_days(self) -> None:
        """Makes this run and later ones look for files of the days that are to be read again."""
        self._write(self._before)

    def save(self) -> None:
        """Saves the folders; call it once all readers of the zone have read everything new."""
        self._write(self._after)

    def _write(self, rows: dict[str, dict[str, Any]]) -> None:
        ledger = self._ledger or self._store.make(catalog.LEDGER).table_id()
        own = {path: row | {"ledger": ledger} for path, row in rows.items()}
        if own != self._known:
            table = pa.Table.from_pylist([*self._others, *own.values()], schema=catalog.FOLDERS.schema)
            self._store.replace(catalog.FOLDERS, table)


def _below(folders: Iterable[str]) -> dict[str, list[str]]:
    """For each folder and each of its parents: the folder itself, and all folders below it.

    >>> _below(["a/b", "a/c"])
    {'a/b': ['a/b'], 'a': ['a/b', 'a/c'], 'a/c': ['a/c']}
    """
    below: dict[str, list[str]] = {}
    for folder in folders:
        path = folder
        while path:
            below.setdefault(path, []).append(folder)
            path = path.rpartition("/")[0]
    return below
