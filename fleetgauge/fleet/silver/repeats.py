"""Silver: pushes that were received more than once. Delivery is at least once; a push's id tells repeats.

A push is told by its id, instance and time of receipt. Its rows are equal in all but where they lie, and one of them
stays. Where another writer has them differ, the least row by its columns stays, wherever the rows lie. A push whose
payload cannot be read is no push, and each of its rows is set aside for itself: of several batches each would do so.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from hashlib import sha256
from typing import Any, Final

import numpy as np

from fleetgauge.fleet.arrow import RecordBatch, Table, pa, pc
from fleetgauge.fleet.decode.payloads import count
from fleetgauge.fleet.schemas import CHECKED, INSTANCE, PUSH_RECORD

ORDER: Final = ("client_instance_id", "cluster_id", "principal", "received_at", "push_id")
"""Order of a task's pushes: those of an instance together, in the order of receipt."""

PUSH: Final = ("push_id", *INSTANCE, "received_at")
"""Columns that identify a push."""

_ORIGIN: Final = ("source_file", "source_row")
_DIFFERENT: Final = [name for name in PUSH_RECORD.names if name not in ORDER]


class WithoutRepeats:
    """CHECKED rows in ORDER -> the rows that are kept, batch by batch.

    Attributes:
        repeats: rows that were left out so far.
    """

    def __init__(self) -> None:
        self.repeats = 0

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yields the rows that are kept; the rows of a batch's last push wait for the next batch."""
        waiting: Table = CHECKED.empty_table()
        for batch in batches:
            rows = pa.concat_tables([waiting, pa.Table.from_batches([batch])])
            begins = np.flatnonzero(_begins(rows))
            last = int(begins[-1]) if len(begins) else 0
            yield from self._kept(rows.slice(0, last), begins[:-1])
            waiting = rows.slice(last)
        yield from self._kept(waiting, np.flatnonzero(_begins(waiting)))

    def _kept(self, rows: Table, begins: Any) -> Iterator[RecordBatch]:
        ends = np.append(begins[1:], rows.num_rows)
        several = np.flatnonzero(ends - begins > 1)
        if len(several):
            of_groups = ((int(begins[group]), int(ends[group])) for group in several)
            left_out = [begin + row for begin, end in of_groups for row in repeated(rows[begin:end].to_pylist())]
            self.repeats += len(left_out)
            rows = rows.take(np.setdiff1d(np.arange(rows.num_rows), left_out))
        yield from rows.to_batches()


def _begins(rows: Table) -> Any:
    """True for each row of another push than the row before."""
    columns = [rows[name].combine_chunks() for name in PUSH]
    same = reduce(pc.and_, (pc.equal(column[1:], column[:-1]) for column in columns))
    begins = np.ones(rows.num_rows, np.bool_)
    begins[1:] = ~same.fill_null(False).to_numpy(zero_copy_only=False)
    return begins


def repeated(rows: Sequence[dict[str, Any]]) -> list[int]:
    """Indices of the rows of one push that are left out; rejected rows are never left out."""
    good = [row for row in range(len(rows)) if rows[row]["reason"] is None]
    if len(good) < 2:
        return []
    stays = min(good, key=lambda row: _content(rows[row]))
    payload = rows[stays]["metrics"]
    is_push = not count([payload]).reasons
    return [row for row in good if row != stays and (is_push or rows[row]["metrics"] != payload)]


def _content(row: dict[str, Any]) -> tuple[Any, ...]:
    digest = {"metrics": sha256(row["metrics"]).hexdigest()}
    return tuple(_ordered(digest.get(name, row[name])) for name in (*_DIFFERENT, *_ORIGIN))


def _ordered(value: Any) -> tuple[bool, Any]:
    return value is not None, value
