"""The task that computes clients, activity and inventory of some client instances."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, datetime
from typing import ClassVar

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import Table, pa
from fleetgauge.fleet.gold.inventory import activity, inventory, seen_by_day
from fleetgauge.fleet.pipeline.spans import of_days
from fleetgauge.fleet.schemas import INSTANCE
from fleetgauge.fleet.silver.clients import SEEN, SEEN_OF, clients, merged, seen, with_state
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.parquet_files import WriteFiles
from fleetgauge.fleet.tables.written_file import WrittenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class OfClients:
    """Writes all rows of CLIENTS and INVENTORY, and the rows of ACTIVITY of some days, to files.

    Attributes:
        pushes: all.
        clients: those that earlier runs knew.
        activity: of the other days.
        days: that activity is computed of anew, from all of their pushes.
        now: when states are judged at.
        targets: where the rows of CLIENTS, ACTIVITY and INVENTORY go.
    """

    merged_at: ClassVar = 200_000
    """Rows held in memory before they are merged."""

    pushes: Snapshot
    clients: Snapshot
    activity: Snapshot
    days: tuple[date, ...]
    now: datetime
    targets: Sequence[WriteFiles]

    def __call__(self, ranges: list[shards.Part]) -> list[WrittenFile]:
        """Files with the rows of these ranges of ids."""
        with ExitStack() as stack:
            writers = [stack.enter_context(to.open()) for to in self.targets]
            for each in ranges:
                for writer, rows in zip(writers, self._rows(each), strict=True):
                    writer.write_table(rows)
            for writer in writers:
                writer.finish()
            return [file for writer in writers for file in writer.take_finished()]

    def _rows(self, part: shards.Part) -> tuple[Table, Table, Table]:
        is_own, is_today = shards.within(part), of_days(self.days)
        pushes = self.pushes.scan(SEEN_OF, is_own & is_today)
        new = _added_up((seen(pa.Table.from_batches([batch])) for batch in pushes), ("date", *INSTANCE), self.merged_at)
        days = self.activity.scan(where=is_own & ~is_today)
        others = _added_up((seen_by_day(pa.Table.from_batches([batch])) for batch in days), INSTANCE, self.merged_at)
        everything = with_state(inventory(pa.concat_tables([new, others])), self.now)
        return clients(new, self.clients.table(where=is_own), self.now), activity(new), everything


def _added_up(tables: Iterable[Table], by: tuple[str, ...], merged_at: int) -> Table:
    """SEEN rows merged by these columns, from tables that need not fit into memory together."""
    waiting = [SEEN.empty_table()]
    count, limit = 0, merged_at
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        if count > limit:
            waiting = [merged(pa.concat_tables(waiting), by)]
            count = waiting[0].num_rows
            limit = max(merged_at, 2 * count)
    return merged(pa.concat_tables(waiting), by)
