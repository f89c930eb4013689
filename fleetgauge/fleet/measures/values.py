"""What merged wide rows say: one value a measure, and which measures a client's library never sends."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Final

import numpy as np

from fleetgauge.fleet.arrow import Array, Schema, Table, conformed, pa, pc
from fleetgauge.fleet.measures.catalogue import BY_COLUMN, LAG_RECORDS, MEASURES
from fleetgauge.fleet.measures.rows import (
    AVG_UNITS,
    GROWTH_UNITS,
    IDENTITY,
    LASTS,
    MEMBER,
    ROWS,
    TOPS,
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
from fleetgauge.telemetry.catalogue.standard_metrics import metrics_by_name

_KINDS: Final = ("producer", "consumer", "share-consumer", "admin")
_WINDOWED: Final = ("date", "window_s", *WINDOW)

VALUE_COLUMNS: Final = (LAG_RECORDS, *(measure.column for measure in MEASURES))
"""The columns that may be unknown."""

WIDE: Final = pa.schema(
    [
        *(field for field in ROWS if field.name in (*_WINDOWED, "role", "node_id", "coordinator", "topic")),
        *(field for field in ROWS if field.name in ("seen_at", *IDENTITY, *MEMBER)),
        *(field for field in ROWS if field.type == pa.int64() and not field.name.endswith(("_sum", "_count"))),
        *((name, pa.float64()) for name in VALUE_COLUMNS if name not in ROWS.names or name in (*TOPS, *LASTS)),
        *((f"{measure.column}_count", pa.int64()) for measure in MEASURES if measure.over == "avg"),
        ("lag_partitions", ROWS.field("lag_partitions").type),
        ("unknown", pa.list_(pa.string())),
    ]
)
"""Merged wide rows to be read: averages and growth in their unit, how many values an average has, and `unknown`, the
measures that this client's library never sends, which is null for links and topics."""


class Wide:
    """Merged ROWS, read by measure."""

    def __init__(self, rows: Table) -> None:
        self.rows = rows.combine_chunks()

    def __len__(self) -> int:
        return len(self.rows)

    def count(self, name: str) -> Numbers:
        """One of the counts."""
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
        """The sum over the partitions of the latest push that has a word on lags; null where it has none."""
        lists = one(self.rows["lag_partitions"])
        lag = filled(lists.flatten().field("lag"), 0.0)
        total = exact_sums(lag, filled(pc.list_parent_indices(lists), 0), len(self))
        return pa.array(total, mask=filled(pc.list_value_length(lists), 0) == 0)

    def is_client(self) -> Numbers:
        """True for rows of clients, false for links and topics."""
        return ~(is_valid(self.rows["role"]) | is_valid(self.rows["topic"]))

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

    def table(self, schema: Schema, rows: Numbers, columns: Mapping[str, Array | str]) -> Table:
        """Some rows as a table of `schema`: with these columns, of which a text is of every row, beside their own."""
        given = {name: pa.repeat(each, len(rows)) if isinstance(each, str) else each for name, each in columns.items()}
        return conformed(schema, self.columns(schema.names, rows) | given, len(rows))

    @cached_property
    def client_of(self) -> Numbers:
        """For each row the row of its client and window; -1 for none."""
        keys = [codes(self.rows[name]) for name in WINDOW if name != "window_start"]
        window_of, _, count = numbered([times(self.rows["window_start"]), *keys])
        client_of = np.full(count, -1)
        clients = np.flatnonzero(self.is_client())
        client_of[window_of[clients]] = clients
        return client_of[window_of]

    def unknown(self, columns: Sequence[str], rows: Numbers, kinds: Numbers) -> Array:
        """The columns that the libraries of these rows' clients never fill; those that are null, of other libraries.

        Args:
            columns: names of measures.
            rows: numbers of rows of clients.
            kinds: for each which of `_KINDS` it is, a column each.
        """
        nulls = np.stack([~is_valid(self.value(name))[rows] for name in columns], axis=1)
        dialects = one(self.rows["dialect"]).take(pa.array(rows)).to_pylist()
        found = [
            _lacking(dialect, tuple(kind), tuple(columns)) if dialect else np.array(columns)[null].tolist()
            for dialect, kind, null in zip(dialects, kinds.tolist(), nulls, strict=True)
        ]
        return pa.array(found, pa.list_(pa.string()))

    def kinds(self) -> Numbers:
        """What each client is, a column each: producer, consumer, share consumer, admin client."""
        share = self.count("share_pushes") > 0
        producer = self.count("producer_pushes") + self.count("produce_throttle_pushes") > 0
        consumer = self.count("consumer_pushes") + self.count("rebalance_pushes") + self.count("fetch_throttle_pushes")
        consumer = ~share & (consumer > 0)
        return np.stack([producer, consumer, share, ~(producer | consumer | share)], axis=1)

    def gap(self, family: str, *marks: str) -> Array:
        """True where points of a family's sums carry one of the marks."""
        counted = sum((self.count(f"{family}_{mark}_points") for mark in marks), np.zeros(len(self), np.int64))
        return pa.array(counted > 0)


def wide(rows: Table) -> Table:
    """Merged ROWS -> WIDE."""
    given, every = Wide(rows), np.arange(rows.num_rows)
    columns = {name: given.value(name) for name in VALUE_COLUMNS}
    clients = np.flatnonzero(given.is_client())
    place = np.full(len(every), -1)
    place[clients] = np.arange(len(clients))
    unknown = given.unknown(VALUE_COLUMNS, clients, given.kinds()[clients])
    columns["unknown"] = unknown.take(pa.array(place, mask=place < 0))
    return given.table(WIDE, every, columns)


def described(metric: str) -> dict[str, str]:
    """A metric's name without `.avg` and `.max`, its unit and its meaning if they are known, as columns have them."""
    known = metrics_by_name()[f"{metric}.avg"]
    texts = {"metric": metric, "unit": known.unit, "meaning": known.quantity}
    return {name: text for name, text in texts.items() if text is not None}


@cache
def _lacking(dialect: str, kinds: tuple[bool, ...], columns: tuple[str, ...]) -> list[str]:
    roles = [kind for kind, is_kind in zip(_KINDS, kinds, strict=True) if is_kind]
    return [column for column in columns if not _fills(dialect, roles, column)]


def _fills(dialect: str, roles: list[str], column: str) -> bool:
    measure = BY_COLUMN["lag_max_records" if column == LAG_RECORDS else column]
    known = [metrics_by_name()[name] for name in measure.names]
    return not known or any(dialect in metric.clients and not set(roles).isdisjoint(metric.roles) for metric in known)
