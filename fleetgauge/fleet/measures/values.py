"""Merged wide rows in Arrow: one value per measure. `fleet.gold.sql` computes the same for queries."""

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from fleetgauge.fleet.arrow import Array, Table, pa, pc
from fleetgauge.fleet.measures.catalogue import BY_COLUMN, LAG_RECORDS
from fleetgauge.fleet.measures.rows import (
    AVG_UNITS,
    GROWTH_UNITS,
    IDENTITY,
    MEMBER,
    WINDOW,
    Numbers,
    codes,
    equals,
    exact_sums,
    filled,
    is_valid,
    numbered,
    one,
    times,
)


class Wide:
    """Merged ROWS, read by measure."""

    def __init__(self, rows: Table) -> None:
        self.rows = rows.combine_chunks()

    def __len__(self) -> int:
        return len(self.rows)

    def count(self, name: str) -> Numbers:
        """A count column."""
        return filled(self.rows[name], 0)

    def value(self, column: str) -> Array:
        """A measure: an average, growth, maximum, minimum, the latest, or a count; null where nothing is known."""
        if column == LAG_RECORDS:
            return self._lag()
        over = BY_COLUMN[column].over
        if over in ("samples", "positive"):
            return pa.array(self.count(column))
        if over not in ("avg", "growth"):
            return one(self.rows[column])
        total, count = self.count(f"{column}_sum"), self.count(f"{column}_count")
        divisor = GROWTH_UNITS if over == "growth" else AVG_UNITS * np.maximum(count, 1)
        return pa.array(total / divisor, mask=count <= 0)

    def _lag(self) -> Array:
        """Sum over the partitions of the latest push that reports lags; null without one."""
        lists = one(self.rows["lag_partitions"])
        lag = filled(lists.flatten().field("lag"), 0.0)
        total = exact_sums(lag, filled(pc.list_parent_indices(lists), 0), len(self))
        return pa.array(total, mask=filled(pc.list_value_length(lists), 0) == 0)

    def has_role(self, role: str) -> Numbers:
        """True for links of that role."""
        return equals(self.rows["role"], role)

    def columns(self, names: Iterable[str], rows: Numbers) -> dict[str, Array]:
        """Some columns of some rows; identities are those of the row's client."""
        of_client = self.client_of[rows]
        taken = {
            name: pa.array(of_client, mask=of_client < 0) if name in (*IDENTITY, *MEMBER) else pa.array(rows)
            for name in names
            if name in self.rows.schema.names
        }
        return {name: one(self.rows[name]).take(at) for name, at in taken.items()}

    @cached_property
    def client_of(self) -> Numbers:
        """For each row, the row of its client and window; -1 for none."""
        keys = [codes(self.rows[name]) for name in WINDOW if name != "window_start"]
        window_of, _, count = numbered([times(self.rows["window_start"]), *keys])
        client_of = np.full(count, -1)
        clients = np.flatnonzero(~(is_valid(self.rows["role"]) | is_valid(self.rows["topic"])))
        client_of[window_of[clients]] = clients
        return client_of[window_of]
