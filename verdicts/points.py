"""The points that an operator's own rules read, by client instance and push, and what is known of their clients."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from verdicts.arrow import Numbers, Table, pa
from verdicts.patterns import matches
from verdicts.window import Registry

COLUMNS: Final = (
    "received_at", "push_id", "cluster_id", "principal", "client_instance_id", "metric_name", "value", "delta",
    "before_subscription", "start_time_unix_nano", "time_unix_nano", "push_interval_ms", "node_id", "topic", "twin",
)  # fmt: skip
"""The columns of POINTS that are read."""


class Points:
    """Points in the order of their receipt, second copies of dotted topics left out.

    Args:
        table: COLUMNS of POINTS.
        clients: `notes.client_columns` of CLIENTS.
        registry: gives instances their numbers.

    Attributes:
        instance: the number of the instance of each point.
        at_us: when it was received [us].
    """

    def __init__(self, table: Table, clients: Table, registry: Registry) -> None:
        table = table.combine_chunks().filter(pa.compute.invert(table["twin"].combine_chunks().fill_null(False)))
        self._table = table.sort_by([("received_at", "ascending"), ("push_id", "ascending")]).combine_chunks()
        self._registry = registry
        self._clients = clients
        names = ("cluster_id", "principal", "client_instance_id")
        known = registry.instances.codes(*(_one(clients, name) for name in names)) if clients.num_rows else _NONE
        order = np.argsort(known, kind="stable")
        self._known, self._row = known[order], order
        self._matched: dict[str, Numbers] = {}
        self.at_us: Numbers = _one(self._table, "received_at").cast(pa.int64()).to_numpy(zero_copy_only=False)
        instance = registry.instances.codes(*(_one(self._table, name) for name in names)) if len(self) else _NONE
        self.instance: Numbers = instance

    def __len__(self) -> int:
        count: int = self._table.num_rows
        return count

    def within(self, begin_us: int, end_us: int) -> "Points":
        """Those received from one time on to before another [us]."""
        begin, end = np.searchsorted(self.at_us, [begin_us, end_us]).tolist()
        found = object.__new__(Points)
        found.__dict__.update(self.__dict__)
        found._table = self._table.slice(begin, end - begin)
        found.at_us, found.instance = self.at_us[begin:end], self.instance[begin:end]
        return found

    def number(self, name: str) -> Numbers:
        """A column as numbers; NaN for null."""
        column = _one(self._table, name).cast(pa.float64()).fill_null(float("nan"))
        found: Numbers = column.to_numpy(zero_copy_only=False)
        return found

    def texts(self, name: str) -> Any:
        """A column of texts."""
        return _one(self._table, name)

    def value(self, name: str, row: int) -> Any:
        """One value."""
        return self._table[name][row].as_py()

    def place_of(self, name: str, known: tuple[str, ...]) -> Numbers:
        """For each text its place among those known; -1 for another."""
        found = pa.compute.index_in(self.texts(name), value_set=pa.array(known, pa.string())).fill_null(-1)
        places: Numbers = found.to_numpy(zero_copy_only=False)
        return places

    def of_clients(self, match: Mapping[str, str]) -> Numbers:
        """True for the points of clients that all of these patterns match."""
        is_matched = np.ones(len(self._known), np.bool_)
        for name, pattern in match.items():
            is_matched &= matches(_one(self._clients, name).cast(pa.string()), pattern)[self._row]
        return np.isin(self.instance, self._known[is_matched])

    def identity(self, instance: int) -> dict[str, Any]:
        """What is known of a client, by the names of `clients`."""
        at = int(np.searchsorted(self._known, instance))
        if at == len(self._known) or self._known[at] != instance:
            return {}
        row: dict[str, Any] = self._clients.slice(int(self._row[at]), 1).to_pylist()[0]
        return row


_NONE: Final = np.zeros(0, np.int64)


def _one(table: Table, name: str) -> Any:
    return table[name].combine_chunks()
