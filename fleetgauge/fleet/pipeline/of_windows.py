"""The tasks that compute the gold tables by window: of some client instances, or of the groups of some windows.

A file of such a table may have rows of windows that are not computed, beside rows of some that are. The tasks write
these again, into files of their own, which later runs leave alone; the old file is removed in the same commit.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import pc
from fleetgauge.fleet.engines.sql import answer, answers
from fleetgauge.fleet.gold.latency import latency
from fleetgauge.fleet.gold.members import consumers, groups, rebalances
from fleetgauge.fleet.gold.producers import producers
from fleetgauge.fleet.gold.sql import Query
from fleetgauge.fleet.gold.throttling import throttling
from fleetgauge.fleet.pipeline.spans import Span, days, meets, within
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.parquet_files import FileWriter, WriteFiles
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.tables.written_file import WrittenFile

OF_CLIENTS: Final[tuple[tuple[catalog.Table, Query], ...]] = (
    (catalog.LATENCY, latency()),
    (catalog.THROTTLING, throttling()),
    (catalog.PRODUCERS, producers()),
    (catalog.REBALANCES, rebalances()),
    (catalog.CONSUMERS, consumers()),
)
"""Tables whose rows belong to one client instance each, with the functions that compute them from `windows`."""

_COLUMNS: Final = tuple(dict.fromkeys(name for _, query in OF_CLIENTS for name in query.columns))
_IS_CLIENT: Final = pc.field("role").is_null() & pc.field("topic").is_null()

_START: Final = "window_start"


def files_within(store: Store, table: catalog.Table, spans: list[Span]) -> list[dict[str, Any]]:
    """Files of a table by window that may have rows in these spans."""
    files = store.files(table, days(spans))
    return [file for file in files if meets(spans, file[f"min.{_START}"], file[f"max.{_START}"])]


@dataclass(frozen=True, slots=True)
class Target:
    """A table by window in which the rows of some windows are replaced.

    Attributes:
        rows: as they are.
        to: where new ones go.
        old: paths of the files that may have rows of these windows.
    """

    rows: Snapshot
    to: WriteFiles
    old: frozenset[str]

    @classmethod
    def of(cls, store: Store, table: catalog.Table, spans: list[Span]) -> "Target":
        """The target for a table; the table is created if missing."""
        old = files_within(store, table, spans)
        return cls(store.snapshot(table), store.files_of(table), frozenset(file["path"] for file in old))

    def keep(self, writer: FileWriter, spans: list[Span], where: Any) -> None:
        """Writes the rows of other windows from the old files again."""
        if self.old:
            for batch in self.rows.scan(where=where & ~within(spans, _START), paths=self.old):
                writer.write(batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfWindows:
    """Writes the rows of some windows of every table in OF_CLIENTS to files."""

    windows: Snapshot
    spans: list[Span]
    targets: tuple[Target, ...]

    def __call__(self, ranges: list[shards.Part]) -> tuple[list[WrittenFile], int]:
        """Files with the rows of these ranges of ids, and the number of client rows of `windows`."""
        count = 0
        with ExitStack() as stack:
            writers = [stack.enter_context(target.to.open()) for target in self.targets]
            for each in ranges:
                rows = self.windows.table(_COLUMNS, within(self.spans, _START) & shards.within(each))
                count += pc.sum(pc.and_(rows["role"].is_null(), rows["topic"].is_null())).as_py() or 0
                for writer, answer in zip(writers, answers((query for _, query in OF_CLIENTS), rows), strict=True):
                    writer.write_table(answer)
            for writer, target in zip(writers, self.targets, strict=True):
                writer.finish()
                target.keep(writer, self.spans, shards.within(shards.together(ranges)))
                writer.finish()
            return [file for writer in writers for file in writer.take_finished()], count


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGroups:
    """Writes the rows of GROUPS of some windows to files.

    Members of a group may have any id: all clients of a window are in memory together, in the columns that count.
    """

    windows: Snapshot
    target: Target
    spans: list[Span]

    def __call__(self, part: tuple[list[Span], bool]) -> list[WrittenFile]:
        """Files with the rows of some of the spans and, if the flag is set, the rows to be kept."""
        spans, keeps = part
        with self.target.to.open() as writer:
            rows = self.windows.table(groups().columns, within(spans, _START) & _IS_CLIENT)
            writer.write_table(answer(groups(), rows))
            writer.finish()
            if keeps:
                self.target.keep(writer, self.spans, pc.scalar(True))
            return writer.take_all()
