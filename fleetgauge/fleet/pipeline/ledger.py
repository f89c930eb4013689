"""Batches of a source: the table `ledger`.

What a batch holds is written down before it begins, so that one that was cut off comes out the same when it runs
again. A batch is done once its transaction is in `pushes`, which is written last. Of a source, at most the last batch
is not.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import count
from typing import Any, Final

from fleetgauge.fleet import schemas
from fleetgauge.fleet.arrow import Table, pa, pc, to_list
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Transaction
from fleetgauge.fleet.tables.store import Store

DATE_DIRECTORY: Final = "date="

OF_OFFSETS: Final = "offsets-"
OF_TRAFFIC: Final = "traffic-"
"""Prefix of the names of sources whose batches are samples of groups or rows of traffic; these depend on no other
batch.
"""
OF_QUERIES: Final = "query-"
"""Prefix of the names of sources that a streaming query reads; its checkpoint has the position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file of a landing zone, by its path in the zone, from 0 to its size [B]; or a topic's partition, from `begin`
    up to but excluding `end`.
    """

    path: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The `number`-th batch of a source."""

    number: int
    parts: tuple[Part, ...]


class Ledger:
    """Batches read from one source.

    Args:
        store: the tables.
        source: names it among others.
        done_in: the table that is written last.

    Attributes:
        app_id: whose transactions the batches are; the next one if the ledger was lost, since their numbers begin anew.
        redecoding: days that are to be read again (`begin_again`).

    Raises:
        TableError: the ledger was lost while a batch was being written.
    """

    def __init__(self, store: Store, source: str, done_in: catalog.Table = catalog.PUSHES) -> None:
        self._store = store
        self._source = source
        self.app_id: str = self._find_app_id()
        self._is_own = pc.field("source") == source
        rows = self._rows(self._is_own & pc.field("batch_id").is_null())
        self.redecoding = [date.fromisoformat(path) for path in to_list(rows["path"])]
        self._done = store.last_version(done_in, self.app_id)
        self._last = max(store.last_version(catalog.LEDGER, self.app_id), self._done)

    def _find_app_id(self) -> str:
        for generation in count():
            app_id = f"{self._source}-{generation}"
            if self._store.last_version(catalog.LEDGER, app_id) >= 0:
                return app_id
            if _is_cut_off(self._store, app_id):
                raise TableError(
                    f"the ledger in {self._store.root} was removed after a run was interrupted, whose rows "
                    "would count twice: remove all tables; the next run reads everything again"
                )
            if self._store.last_version(catalog.PUSHES, app_id) < 0:
                return app_id
        raise AssertionError

    def _rows(self, where: Any) -> Table:
        """Rows in the order of their batches."""
        if not self._store.has(catalog.LEDGER):
            return catalog.LEDGER.schema.empty_table()
        rows = self._store.snapshot(catalog.LEDGER).table(where=where)
        return rows.sort_by([("batch_id", "ascending"), ("path", "ascending")])

    def read_to(self, folder: str = "") -> dict[str, int]:
        """End up to which each file or partition was assigned to a batch.

        Args:
            folder: only files below this one of the zone; all if it is empty.
        """
        source, path = pc.field("source"), pc.field("path")
        condition = (source == self._source) | (source == OF_QUERIES + self._source)
        if folder:
            condition &= (path >= f"{folder}/") & (path < f"{folder}0")  # the character after /
        rows = self._rows(condition & pc.field("batch_id").is_valid() & (path != ""))
        ends: dict[str, int] = {}
        for place, end in zip(to_list(rows["path"]), to_list(rows["end"]), strict=True):
            ends[place] = max(end, ends.get(place, 0))
        return ends

    def unfinished(self) -> list[Plan]:
        """The planned batch that is not finished, if there is one.

        Raises:
            TableError: tables were removed since they were written.
        """
        if self._last - self._done > 1:
            path = catalog.LEDGER.path(self._store.root)
            raise TableError(
                f"the ledger {path} lists pushes that are not in the tables in {self._store.root}, which were perhaps "
                "removed: remove the ledger too; the next run reads everything again"
            )
        if self._last == self._done:
            return []
        rows = self._rows(self._is_own & (pc.field("batch_id") == self._last)).select(["path", "begin", "end"])
        return [Plan(number=self._last, parts=tuple(Part(**row) for row in rows.to_pylist()))]

    def check_others(self, *, by_query: bool = False) -> None:
        """Raises TableError if another source's batch was interrupted while it was written, or this source's in the
        other mode: by a streaming query, or (`by_query`) without one.

        Until it is written altogether, its pushes are not known as repeats, and its points are not what is computed
        from. What this source writes meanwhile would count twice or be left out.
        """
        own = {self._source, *([OF_QUERIES + self._source] if by_query else [])}
        for app_id, source in cut_off(self._store).items():
            if source not in own:
                names = {row["source"] for row in self._store.rows(catalog.BATCHES) if row["app_id"] == app_id}
                how = " with --continuous" if source.startswith(OF_QUERIES) else ""
                raise TableError(
                    f"a run of {' '.join(names) or source}{how} was interrupted while it wrote to {self._store.root}: "
                    f"run it{how} again first; it continues from there"
                )

    def plan(self, parts: Iterable[Part]) -> Plan:
        """Records the content of the next batch.

        Raises:
            TableError: another run has planned it meanwhile.
        """
        plan = Plan(number=self._last + 1, parts=tuple(parts))
        rows = [{**self._row(part.path, plan.number), "begin": part.begin, "end": part.end} for part in plan.parts]
        if not self._store.append_rows(catalog.LEDGER, rows, Transaction(app_id=self.app_id, version=plan.number)):
            raise TableError(f"another run reads the same source into {self._store.root}: allow only one at a time")
        self._last = plan.number
        return plan

    def note_query(self, query_id: str, read_to: Mapping[str, int]) -> None:
        """Records that a streaming query reads the source, and its position.

        Before its first batch that is for `check_others` of other sources, and after a round for runs without it.
        """
        known = self.read_to()
        ends = {path: end for path, end in read_to.items() if known.get(path, -1) < end}
        queries = self._rows(pc.field("source") == OF_QUERIES + self._source)["app_id"].to_pylist()
        if query_id not in queries:
            ends[""] = 0
        rows = [
            {**self._row(path, 0), "source": OF_QUERIES + self._source, "app_id": query_id, "begin": 0, "end": end}
            for path, end in ends.items()
        ]
        if rows:
            self._store.append_rows(catalog.LEDGER, rows)

    def begin_again(self, day: date) -> None:
        """Records that the files of a day are to be read again; from now on this or a later run does so, however often
        it is interrupted.
        """
        self._store.append_rows(catalog.LEDGER, [self._row(day.isoformat(), None)])
        self.redecoding.append(day)

    def forget(self, day: date) -> None:
        """Deletes the records that files of a day were read and that they are to be read again, in one commit."""
        self._store.log(catalog.LEDGER).delete(
            f"source = '{self._source}' AND "
            f"(path LIKE '%{DATE_DIRECTORY}{day}/%' OR (batch_id IS NULL AND path = '{day}'))"
        )
        self.redecoding = [each for each in self.redecoding if each != day]

    def _row(self, path: str, batch: int | None) -> dict[str, Any]:
        return {"source": self._source, "app_id": self.app_id, "batch_id": batch, "path": path}


def cut_off(store: Store) -> dict[str, str]:
    """Sources with a partly written batch of pushes: the source by the `app_id` of the batch."""
    if not store.has(catalog.LEDGER):
        return {}
    rows = store.log(catalog.LEDGER).snapshot(schemas.encoded(catalog.LEDGER_SCHEMA))
    names = ["app_id", "source"]
    sources = set[tuple[str, str]]()
    for batch in rows.scan(names):
        pairs = pa.Table.from_batches([batch]).group_by(names).aggregate([])
        sources.update(zip(*(pairs[name].to_pylist() for name in names), strict=True))
    return {
        app_id: source
        for app_id, source in sources
        if not source.startswith((OF_OFFSETS, OF_TRAFFIC)) and _is_cut_off(store, app_id)
    }


def _is_cut_off(store: Store, app_id: str) -> bool:
    written = max(store.last_version(table, app_id) for table in (catalog.REJECTS, catalog.POINTS, catalog.BATCHES))
    return written > store.last_version(catalog.PUSHES, app_id)


def day_of(path: str) -> date | None:
    """Day of receipt of a landing file's pushes, by the name of its directory.

    >>> day_of("date=2026-03-01/hour=12/a.parquet"), day_of("a.parquet")
    (datetime.date(2026, 3, 1), None)
    """
    for name in path.split("/")[:-1]:
        if name.startswith(DATE_DIRECTORY):
            with suppress(ValueError):
                return date.fromisoformat(name.removeprefix(DATE_DIRECTORY))
    return None
