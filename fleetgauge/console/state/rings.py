"""An hour of values by minute, in arrays: measures of clients, and latencies of their links to nodes."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MINUTES: Final = 60
LINKS_MAX: Final = 16
"""Most nodes whose latencies are kept for a client; a client may name any node."""

Numbers = npt.NDArray[Any]

_NONE: Final = -1


class Ring:
    """Values of rows by minute, NaN for none. A row is added with its first value."""

    def __init__(self) -> None:
        self._row_of: Numbers = np.zeros(0, np.int32)
        self._values: Numbers = np.zeros((0, MINUTES), np.float32)
        self._used = 0
        self._free: list[int] = []

    def put(self, numbers: Numbers, values: Numbers, minute: int) -> None:
        """Sets the values of some rows in a minute; NaN is none."""
        is_value = ~np.isnan(values)
        if not is_value.any():
            return
        numbers = numbers[is_value]
        self._grow_index(int(numbers.max()) + 1)
        new = np.unique(numbers[self._row_of[numbers] == _NONE])
        if len(new):
            self._row_of[new] = self._take_rows(len(new))
        self._values[self._row_of[numbers], minute % MINUTES] = values[is_value]

    def row(self, number: int, order: Numbers) -> Numbers | None:
        """Values of a row in this order of minutes; None if it never had any."""
        place = self._row_of[number] if number < len(self._row_of) else _NONE
        if place == _NONE:
            return None
        values: Numbers = self._values[place][order]
        return None if np.isnan(values).all() else values

    def rows(self, numbers: Numbers, order: Numbers) -> Numbers:
        """Values of those of these rows that have any, in any order."""
        numbers = numbers[numbers < len(self._row_of)]
        places = self._row_of[numbers]
        values: Numbers = self._values[places[places != _NONE]][:, order]
        return values

    def latest(self, numbers: Numbers, order: Numbers) -> Numbers:
        """Latest value of each row; NaN for none."""
        latest = np.full(len(numbers), np.nan, np.float32)
        known = np.flatnonzero(numbers < len(self._row_of))
        places = self._row_of[numbers[known]]
        known, places = known[places != _NONE], places[places != _NONE]
        for at in order[::-1]:
            if not len(known):
                break
            values = self._values[places, at]
            is_value = ~np.isnan(values)
            latest[known[is_value]] = values[is_value]
            known, places = known[~is_value], places[~is_value]
        return latest

    def clear(self, minutes: Iterable[int]) -> None:
        """Removes the values of these minutes."""
        for minute in minutes:
            self._values[: self._used, minute % MINUTES] = np.nan

    def drop(self, numbers: Iterable[int]) -> None:
        """Frees rows."""
        for number in numbers:
            if number < len(self._row_of) and self._row_of[number] != _NONE:
                place = int(self._row_of[number])
                self._values[place] = np.nan
                self._free.append(place)
                self._row_of[number] = _NONE

    def _grow_index(self, count: int) -> None:
        if count > len(self._row_of):
            more = np.full(max(count, 2 * len(self._row_of)) - len(self._row_of), _NONE, np.int32)
            self._row_of = np.append(self._row_of, more)

    def _take_rows(self, count: int) -> Numbers:
        free, self._free = self._free[:count], self._free[count:]
        missing = count - len(free)
        if self._used + missing > len(self._values):
            size = max(self._used + missing, self._used + self._used // 2, 64)
            grown = np.full((size, MINUTES), np.nan, np.float32)
            grown[: self._used] = self._values[: self._used]
            self._values = grown
        rows = np.concatenate([np.array(free, np.int32), np.arange(self._used, self._used + missing, dtype=np.int32)])
        self._used += missing
        return rows


class Rings:
    """Rings for the measures of clients, and one for links; numbers of clients and links are reused.

    Attributes:
        newest: the newest minute of all values [min since the epoch].
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self._of = {column: Ring() for column in columns}
        self._links, self._broker_times = Ring(), Ring()
        self._link_of: dict[tuple[int, int], int] = {}
        self._nodes_of: dict[int, list[int]] = {}
        self._free_links: list[int] = []
        self._links_at: Counter[int] = Counter()
        self.newest = 0

    def _all(self) -> tuple[Ring, ...]:
        return (*self._of.values(), self._links, self._broker_times)

    def order(self) -> Numbers:
        """Indices of the minutes in a row, oldest first."""
        return np.arange(self.newest + 1, self.newest + 1 + MINUTES) % MINUTES

    def minutes(self) -> Numbers:
        """The minutes in the order of `order`."""
        return np.arange(self.newest + 1 - MINUTES, self.newest + 1)

    def advance(self, minute: int) -> bool:
        """Makes room for a minute; False if it is too old to be kept."""
        if minute > self.newest:
            cleared = range(max(self.newest + 1, minute - MINUTES + 1), minute + 1)
            for ring in self._all():
                ring.clear(cleared)
            self.newest = minute
        return minute > self.newest - MINUTES

    def put(self, column: str, numbers: Numbers, values: Numbers, minute: int) -> None:
        """Sets a measure of some clients in a minute that `advance` has accepted."""
        self._of[column].put(numbers, values, minute)

    def put_links(
        self, clients: list[int], nodes: list[int], latencies: Numbers, broker_times: Numbers, minute: int
    ) -> None:
        """Sets latencies of links, and their brokers' part [ms], in a minute that `advance` has accepted."""
        numbers = np.array(
            [self._link(client, node) for client, node in zip(clients, nodes, strict=True)], dtype=np.int64
        )
        for ring, values in ((self._links, latencies), (self._broker_times, broker_times)):
            ring.put(numbers[numbers != _NONE], values[numbers != _NONE], minute)

    def _link(self, client: int, node: int) -> int:
        number = self._link_of.get((client, node))
        if number is None:
            nodes = self._nodes_of.setdefault(client, [])
            if len(nodes) >= LINKS_MAX:
                return _NONE
            nodes.append(node)
            number = self._free_links.pop() if self._free_links else len(self._link_of)
            self._link_of[client, node] = number
            self._links_at[node] += 1
        return number

    def nodes_of(self, client: int) -> list[int]:
        """The nodes to which a client has links."""
        return self._nodes_of.get(client, [])

    def row(self, column: str, client: int) -> Numbers | None:
        """See `Ring.row`."""
        return self._of[column].row(client, self.order())

    def rows(self, column: str, clients: Numbers) -> Numbers:
        """See `Ring.rows`."""
        return self._of[column].rows(clients, self.order())

    def latest(self, column: str, clients: Numbers) -> Numbers:
        """See `Ring.latest`."""
        return self._of[column].latest(clients, self.order())

    def link_row(self, client: int, node: int) -> Numbers | None:
        """The latencies of a link [ms]; None if it never had any."""
        number = self._link_of.get((client, node))
        return None if number is None else self._links.row(number, self.order())

    def link_rows(self, links: Iterable[tuple[int, int]]) -> Numbers:
        """The latencies of those of these links (client, node) that have any, in any order."""
        return self._links.rows(self._link_numbers(links), self.order())

    def broker_times(self, links: Iterable[tuple[int, int]]) -> Numbers:
        """Brokers' part of the latencies of these links, as in `link_rows`."""
        return self._broker_times.rows(self._link_numbers(links), self.order())

    def _link_numbers(self, links: Iterable[tuple[int, int]]) -> Numbers:
        return np.array([self._link_of[link] for link in links if link in self._link_of], np.int64)

    @property
    def nodes(self) -> int:
        """Number of nodes that clients have links to."""
        return len(self._links_at)

    def links_by_node(self) -> dict[int, list[int]]:
        """Node -> its clients."""
        clients_of: dict[int, list[int]] = {}
        for client, node in self._link_of:
            clients_of.setdefault(node, []).append(client)
        return clients_of

    def drop(self, clients: list[int]) -> None:
        """Frees the rows of clients and their links; the numbers may be reused."""
        for ring in self._of.values():
            ring.drop(clients)
        links = [(client, node) for client in clients for node in self._nodes_of.pop(client, [])]
        numbers = [self._link_of.pop(link) for link in links]
        self._links_at -= Counter(node for _, node in links)
        for ring in (self._links, self._broker_times):
            ring.drop(numbers)
        self._free_links += numbers

    def clear(self) -> None:
        """Removes all values, and forgets the newest minute."""
        for ring in self._all():
            ring.clear(range(MINUTES))
        self.newest = 0
