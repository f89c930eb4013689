"""Merges partial wide rows; the result does not depend on order or grouping."""

from collections.abc import Iterable, Mapping

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, Table, pa
from fleetgauge.fleet.measures.rows import (
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
    filled,
    numbered,
    one,
    rank_of,
    table_of,
    time_column,
    times,
)


def merge(partials: Iterable[Table | RecordBatch]) -> Table:
    """ROWS -> ROWS, one per key: sums and counts are added; the largest, smallest and latest values are kept.

    Windows of two lengths stay apart: a day has both while a run with another length is not through.

    Args:
        partials: tables or batches of ROWS.
    """
    tables = [part if isinstance(part, Table) else pa.Table.from_batches([part]) for part in partials]
    rows = pa.concat_tables([ROWS.empty_table(), *(table.select(ROWS.names).cast(ROWS) for table in tables)])
    if not rows.num_rows:
        return rows
    columns = {field.name: one(rows[field.name]) for field in ROWS if field.name not in NUMBERS}
    group_of, first, count = _numbered(columns)
    is_alone = np.bincount(group_of, minlength=count)[group_of] == 1
    if is_alone.all():  # as where one batch had all pushes of the windows
        return rows
    if is_alone.any():
        return pa.concat_tables([rows.filter(pa.array(is_alone)), merge([rows.filter(pa.array(~is_alone))])])
    groups = Groups.by(group_of, count)
    merged = Block.of(rows).merged(groups)
    whole_rows, has_any = table_of(combined(columns, groups, first), merged), merged.has_any()
    return whole_rows if has_any.all() else whole_rows.filter(pa.array(has_any))  # corrections may leave nothing


def are_merged(columns: Mapping[str, Array]) -> bool:
    """True if no two rows have the same key: nothing to merge.

    Args:
        columns: of ROWS; KEY and `window_s` are enough.
    """
    group_of, _, count = _numbered(columns)
    return count == len(group_of)


def _numbered(columns: Mapping[str, Array]) -> tuple[Numbers, Numbers, int]:
    return numbered(
        [
            times(columns["window_start"]),
            filled(columns["window_s"], 0),
            *(codes(columns[name]) for name in KEY if name != "window_start"),
        ]
    )


def combined(columns: Mapping[str, Array], groups: Groups, first: Numbers) -> dict[str, Array]:
    """One row per group: the columns of ROWS that are not numbers.

    Args:
        columns: of the rows; may lack some of KEY.
        groups: of the rows.
        first: a row of each group, which has its key.
    """
    any_of, seen = pa.array(first), pa.array(groups.latest(times(columns["seen_at"]), columns["seen_push_id"]))
    lag = pa.array(groups.latest(times(columns["lag_at"]), columns["lag_push_id"]))
    merged = {name: columns[name].take(any_of) for name in ("date", "window_s", *KEY) if name in columns}
    merged |= {name: columns[name].take(seen) for name in ("seen_at", "seen_push_id", *IDENTITY)}
    merged |= {name: columns[name].take(lag) for name in LAG_COLUMNS}
    for name in MEMBER:
        merged[name], merged[f"{name}_at"] = _last_text(columns[name], times(columns[f"{name}_at"]), groups)
    return merged


def _last_text(texts: Array, at: Numbers, groups: Groups) -> tuple[Array, Array]:
    """Latest text of each group; at equal times the greatest."""
    order = np.lexsort((rank_of(texts), at, groups.group_of))
    last = order[np.append(groups.begins[1:], len(order)) - 1]
    return texts.take(pa.array(last)), time_column(at[last])
