"""The points that an operator's own rules read, by client instance and push, and the columns of their clients."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from fleetgauge.verdicts.arrow import Array, Numbers, Table, as_numpy, one, pa, pc, places_in
from fleetgauge.verdicts.patterns import matches
from fleetgauge.verdicts.registry import SEPARATOR

_NAMES: Final = ("cluster_id", "principal", "client_instance_id")
COLUMNS: Final = (
    "received_at", "push_id", *_NAMES, "metric_name", "value", "delta", "before_subscription", "start_time_unix_nano",
    "time_unix_nano", "push_interval_ms", "node_id", "topic", "twin",
)  # fmt: skip
"""The columns of POINTS that are read."""


class Points:
    """Points in the order of their receipt, without second copies of dotted topics.

    Args:
        table: COLUMNS of POINTS.
        clients: `notes.client_columns` of CLIENTS.

    Attributes:
        instance: the number of the instance of each point, among those here.
        at_us: when it was received [us].
    """

    def __init__(self, table: Table, clients: Table) -> None:
        table = table.filter(pc.invert(pc.fill_null(table["twin"], False)))
        self._table = table.sort_by([("received_at", "ascending"), ("push_id", "ascending")]).combine_chunks()
        self._clients = clients.combine_chunks()
        instances = _names(self._table).dictionary_encode()
        self._keys: Array = instances.dictionary
        self._client = places_in(_names(self._clients), instances.dictionary)
        self.instance = as_numpy(instances.indices)
        self.at_us = as_numpy(one(self._table["received_at"]).cast(pa.int64()))

    def within(self, begin_us: int, end_us: int) -> "Points":
        """Points received from `begin_us` on and before `end_us`."""
        begin, end = np.searchsorted(self.at_us, [begin_us, end_us]).tolist()
        part = object.__new__(Points)
        part.__dict__.update(self.__dict__)
        part._table = self._table.slice(begin, end - begin)
        part.at_us, part.instance = self.at_us[begin:end], self.instance[begin:end]
        return part

    def number(self, name: str) -> Numbers:
        """A column as numbers; NaN for null."""
        return as_numpy(self.texts(name).cast(pa.float64()), np.nan)

    def texts(self, name: str) -> Array:
        """A column."""
        return one(self._table[name])

    def value(self, name: str, row: int) -> Any:
        """One value."""
        return self._table[name][row].as_py()

    def place_of(self, name: str, known: tuple[str, ...]) -> Numbers:
        """Place of each text in `known`; -1 for others."""
        return places_in(pa.array(known, pa.string()), self.texts(name))

    def of_clients(self, match: Mapping[str, str]) -> Numbers:
        """True for the points of clients that all of these patterns match."""
        is_matched = np.append(np.ones(self._clients.num_rows, np.bool_), not match)  # the last is of unknown clients
        for name, pattern in match.items():
            is_matched[:-1] &= matches(one(self._clients[name]).cast(pa.string()), pattern)
        return is_matched[self._client][self.instance]

    def dialects(self) -> Array:
        """The library of each point's client; null where it is not known."""
        of_client = one(self._clients["dialect"])
        rows = pa.array(self._client, mask=self._client < 0).take(pa.array(self.instance))
        return of_client.take(rows)

    def names_of(self, rows: Numbers) -> tuple[Array, ...]:
        """The columns that name the instances of some points."""
        return tuple(self.texts(name).take(pa.array(rows)) for name in _NAMES)

    def key(self, instance: int) -> str:
        """Key of an instance, the same in any `Points`."""
        return str(self._keys[instance])

    def numbers(self, keys: Iterable[str]) -> Numbers:
        """Numbers of the instances with these keys; those without points here are left out."""
        return as_numpy(pc.index_in(pa.array(list(keys), pa.string()), value_set=self._keys).drop_null())

    def identity(self, instance: int) -> dict[str, Any]:
        """Columns of an instance's client, by name; empty if it is unknown."""
        if (row := int(self._client[instance])) < 0:
            return {}
        return dict(self._clients.slice(row, 1).to_pylist()[0])


def _names(table: Table) -> Array:
    return pc.binary_join_element_wise(*(one(table[name]).fill_null("") for name in _NAMES), SEPARATOR)
