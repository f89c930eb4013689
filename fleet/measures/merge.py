"""Partial wide rows into whole ones: in any order and in any groups the result is the same."""

from collections.abc import Iterable, Mapping

import numpy as np

from fleet.decode.arrow import Array, Table, pa
from fleet.measures.rows import (
    IDENTITY,
    KEY,
    LAG_COLUMNS,
    MEMBER,
    NUMBERS,
    ROWS,
    Block,
    Groups,
    Numbers,
    codes,
    numbered,
    one,
    rank_of,
    table_of,
    time_column,
    times,
)


def merge(partials: Iterable[Table]) -> Table:
    """ROWS -> ROWS, one a key: sums and counts are added, and the largest, the smallest and the latest found.

    Args:
        partials: tables or batches of ROWS.
    """
    tables = [pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part for part in partials]
    rows = pa.concat_tables([ROWS.empty_table(), *(table.select(ROWS.names).cast(ROWS) for table in tables)])
    if not rows.num_rows:
        return rows
    columns = {field.name: one(rows[field.name]) for field in ROWS if field.name not in NUMBERS}
    group_of, first, count = numbered(
        [times(columns["window_start"]), *(codes(columns[name]) for name in KEY if name != "window_start")]
    )
    return table_of(*combined(columns, Block.of(rows), Groups.by(group_of, count), first))


def combined(
    columns: Mapping[str, Array], block: Block, groups: Groups, first: Numbers
) -> tuple[dict[str, Array], Block]:
    """One row a group, as columns and numbers, of rows in the same form.

    Args:
        columns: those of ROWS that are no numbers; may lack those of KEY.
        block: the numbers.
        groups: of the rows.
        first: a row of each group, which has its key.
    """
    any_of, seen = pa.array(first), pa.array(groups.latest(times(columns["seen_at"]), columns["seen_push_id"]))
    lag = pa.array(groups.latest(times(columns["lag_at"]), columns["lag_push_id"]))
    found = {name: columns[name].take(any_of) for name in ("date", "window_s", *KEY) if name in columns}
    found |= {name: columns[name].take(seen) for name in ("seen_at", "seen_push_id", *IDENTITY)}
    found |= {name: columns[name].take(lag) for name in LAG_COLUMNS}
    for name in MEMBER:
        found[name], found[f"{name}_at"] = _last_text(columns[name], times(columns[f"{name}_at"]), groups)
    return found, block.merged(groups)


def _last_text(texts: Array, at: Numbers, groups: Groups) -> tuple[Array, Array]:
    """The latest of each group, and of the same time the greatest."""
    order = np.lexsort((rank_of(texts), at, groups.group_of))
    last = order[np.append(groups.begins[1:], len(order)) - 1]
    return texts.take(pa.array(last)), time_column(at[last])
