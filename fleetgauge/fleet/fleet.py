"""The fleet's tables, as commands, report and Spark readers query them.

    fleet = Fleet("./fleetgauge-data/fleet")
    fleet.windows("latency", since=datetime(2026, 3, 1, tzinfo=UTC))

gives a `pyarrow.Table`; `fleet.frames.Frames` has the same methods for DataFrames. Reading changes no table.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack

from fleetgauge.fleet.arrow import RecordBatch, SortKeys, Table, pa, pc, to_list
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.schemas import TIME
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot, TableLog
from fleetgauge.fleet.tables.paths import qualified, storage_options
from fleetgauge.fleet.tables.store import Store

RowsT = TypeVar("RowsT")

_AGES: Final = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), None)
"""Ages searched for the latest rows, one after the other; None means all rows."""
_TIMES: Final = ("received_at", "window_start", "sampled_at", "last_seen", "finished_at", "opened_at")


class Selected(TypedDict, total=False):
    """The fields of `Selection`, each of which may be left out."""

    since: datetime | None
    until: datetime | None
    client_ids: Collection[str]
    instance_ids: Collection[str]


class Tables(ABC, Generic[RowsT]):
    """Fleet tables by name, in one form of rows. Times select by the column that `time_of` names."""

    @abstractmethod
    def table(self, name: str, selection: Selection | None = None) -> RowsT:
        """The rows of a table of `fleet.tables.catalog`.

        Raises:
            TableError: there is no such table, it lacks a column to select by, or it cannot be read.
        """

    def pushes(self, **selected: Unpack[Selected]) -> RowsT:
        """One row per push, heartbeats too (`fleet.schemas.PUSHES`)."""
        return self.table(catalog.PUSHES.name, Selection(**selected))

    def points(self, **selected: Unpack[Selected]) -> RowsT:
        """One row per data point, with what sums grew by (`fleet.schemas.POINTS`)."""
        return self.table(catalog.POINTS.name, Selection(**selected))

    def windows(self, name: str, **selected: Unpack[Selected]) -> RowsT:
        """One row per window and what the table is of: `latency`, `throttling`, `producers`, `consumers`, ...

        Raises:
            TableError: see `table`; also of one that is not by window.
        """
        if name not in WINDOWED:
            raise TableError(f"there is no table {name} by window: give one of {', '.join(WINDOWED)}")
        return self.table(name, Selection(**selected))

    def inventory(self, **selected: Unpack[Selected]) -> RowsT:
        """One row per client instance (`fleet.schemas.INVENTORY`)."""
        return self.table(catalog.INVENTORY.name, Selection(**selected))

    def verdicts(self) -> RowsT:
        """One row per verdict about a subject, open or cleared (docs/analyse/verdicts.md)."""
        return self.table(catalog.VERDICTS.name)


WINDOWED: Final = tuple(
    name for name, table in catalog.TABLES.items() if table.layer == "gold" and "window_start" in table.schema.names
)
"""The names of the gold tables by window."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of a table, not yet read.

    Attributes:
        table: of which.
        log: its log.
        where: the condition that rows meet: a `pyarrow.compute.Expression`, or None. Files and row groups of other
            days, times and clients are passed over.
    """

    table: catalog.Table
    log: TableLog
    where: Any

    @property
    def rows(self) -> Snapshot:
        """The table as it is now, with null in columns that it is older than."""
        return self.log.snapshot(self.table.schema)

    def batches(self, columns: Collection[str] | None = None) -> Iterator[RecordBatch]:
        """The rows, some at a time."""
        return self.rows.scan(columns, self.where)

    def read(self, columns: Collection[str] | None = None) -> Table:
        """The rows, all in memory."""
        return self.rows.table(columns, self.where)

    def count(self) -> int:
        """Number of rows."""
        if self.where is None:
            return self.log.size().rows
        return sum(batch.num_rows for batch in self.batches([time_of(self.table) or self.table.schema.names[0]]))

    def latest(self, count: int) -> "Chosen":
        """The same rows, without most of those that cannot be among the latest `count`.

        The column of times alone is read for it, from the end: a point has thirty columns beside.
        """
        time = time_of(self.table)
        if time is None:
            return self
        for age in _AGES:
            recent = self if age is None else self._of_last(time, age)
            times = pc.drop_null(recent.read([time])[time])
            if len(times) >= count:
                at = times.take(pc.select_k_unstable(times, count, [(time, "descending")]))[-1]
                return recent._and(pc.field(time) >= at)
        return self

    def _of_last(self, time: str, age: timedelta) -> "Chosen":
        files = self.log.files()
        column = f"max.{time}"
        newest = pc.max(files[column]).as_py() if column in files.column_names else None
        return self if newest is None else self._and(pc.field(time) >= pa.scalar(newest - age, TIME))

    def _and(self, condition: Any) -> "Chosen":
        return replace(self, where=condition if self.where is None else self.where & condition)


class Fleet(Tables[Table]):
    """The tables under one root, as Arrow.

    Args:
        tables: the root: a directory, or a URI of an object store.
        conf: settings of Spark, of which those of s3a count.

    Attributes:
        root: as it was given.
        store: the same tables, for what `fleet run` does with them.
    """

    def __init__(self, tables: str, conf: Mapping[str, str] | None = None) -> None:
        self.root = tables
        self._options = storage_options(conf or {})
        self.store = Store(qualified(tables), self._options)

    def table(self, name: str, selection: Selection | None = None) -> Table:
        """See `Tables.table`."""
        return self.chosen(name, selection).read()

    def has(self, name: str) -> bool:
        """True if the table exists."""
        return TableLog(catalog.TABLES[name].path(self.root), self._options).exists()

    def chosen(self, name: str, selection: Selection | None = None, group_id: str | None = None) -> Chosen:
        """Rows of a table, to be read in part or in pieces.

        Args:
            name: of the table.
            selection: which rows; all by default.
            group_id: only of this consumer group.

        Raises:
            TableError: there is no such table, or it lacks a column to select by.
        """
        if name not in catalog.TABLES:
            raise TableError(f"there is no table {name}: tables are {', '.join(catalog.TABLES)}")
        table = catalog.TABLES[name]
        log = TableLog(table.path(self.root), self._options)
        if not self.has(name):
            raise TableError(f"there is no table {name} in {self.root}: {table.made_by}")
        log.check_cluster(table.schema)
        return Chosen(table, log, _condition(table, selection or Selection(), group_id))

    def verdicts(self) -> Table:
        """The verdicts, best rank first."""
        order: SortKeys = [
            ("score", "descending"),
            *((name, "ascending") for name in ("opened_at", "verdict", "cluster_id", "subject")),
        ]
        return super().verdicts().sort_by(order)

    @classmethod
    def with_verdicts(cls, tables: str, conf: Mapping[str, str] | None = None) -> "Fleet":
        """The tables under a root in which verdicts were computed.

        Raises:
            TableError: there are no verdicts, or not all of the tables that belong to them.
        """
        fleet = cls(tables, conf)
        if not fleet.store.has(catalog.VERDICTS):
            raise TableError(f"there is no table verdicts in {tables}: {catalog.VERDICTS.made_by}")
        for table in (catalog.CLIENTS, catalog.WINDOWS, catalog.JUDGED):
            if not fleet.store.has(table):
                raise TableError(
                    f"the table {table.name} is missing in {tables}: restore a backup, or run fleet run with "
                    "an empty --tables directory"
                )
        return fleet

    def judged(self) -> "Judged":
        """Extent of the data that the verdicts were computed from, by the statistics of files."""
        store = self.store
        files = [file for file in store.files(catalog.WINDOWS) if file["num_records"]]
        begins = [file["min.window_start"] for file in files]
        ends = [file["max.window_start"] + timedelta(seconds=file["max.window_s"]) for file in files]
        if store.has(catalog.GROUP_TRENDS):
            sampled = [file for file in store.files(catalog.GROUP_TRENDS) if file["num_records"]]
            begins += [file["min.window_start"] for file in sampled]
            ends += [file["max.window_start"] for file in sampled]
        end, now = max(ends, default=None), datetime.now(UTC)
        if end is not None and end > now:  # its last window lasts yet, and was judged by what had come
            seen = to_list(store.snapshot(catalog.CLIENTS).table(["last_seen"])["last_seen"])
            end = min(now, max(seen, default=now))
        instances = store.log(catalog.CLIENTS).size().rows
        return Judged(instances=instances, begin=min(begins, default=None), end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Extent of the data that the verdicts were computed from.

    Attributes:
        instances: client instances known.
        begin, end: of the windows judged; None where there is none.
    """

    instances: int
    begin: datetime | None
    end: datetime | None

    def __str__(self) -> str:
        if self.begin is None or self.end is None:
            return "nothing: there is no window yet"
        instances = f"{self.instances:,} client instance{'' if self.instances == 1 else 's'}"
        return f"{instances} from {self.begin:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"


def time_of(table: catalog.Table) -> str | None:
    """The column that time bounds apply to: time of receipt, beginning of the window, or time last seen; or None."""
    return next((name for name in _TIMES if name in table.schema.names), None)


def days_of(table: catalog.Table, selection: Selection) -> tuple[date | None, date | None]:
    """First and last day of the selected rows in a table partitioned by days; None means unbounded."""
    since, until = selection.since, selection.until
    if not table.dated:
        return None, None
    return since and since.astimezone(UTC).date(), until and until.astimezone(UTC).date()


def _condition(table: catalog.Table, selection: Selection, group_id: str | None) -> Any:
    conditions = []
    first, last = days_of(table, selection)
    if selection.since is not None:
        conditions.append(pc.field(_asked(table, time_of(table), "times")) >= selection.since)
    if selection.until is not None:
        conditions.append(pc.field(_asked(table, time_of(table), "times")) < selection.until)
    if first is not None:
        conditions.append(pc.field(catalog.DATE) >= pa.scalar(first))
    if last is not None:
        conditions.append(pc.field(catalog.DATE) <= pa.scalar(last))
    of_group = {} if group_id is None else {"group_id": [group_id]}
    for name, values in {**selection.ids, **of_group}.items():
        conditions.append(pc.field(_asked(table, name, name)).isin(list(values)))
    where = None
    for condition in conditions:
        where = condition if where is None else where & condition
    return where


def _asked(table: catalog.Table, name: str | None, what: str) -> str:
    if name is None or name not in table.schema.names:
        raise TableError(f"the table {table.name} has no {what} to select by")
    return name
