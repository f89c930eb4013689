"""Rows of windows in the order of their times, with texts as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetgauge.verdicts.arrow import Array, Numbers, Table, as_numpy, pa, pc
from fleetgauge.verdicts.registry import Span


class TimedRows:
    """A table in the order of its times.

    Args:
        table: the rows.
        time: the column of their times.
        texts: columns of texts that are read; null is ''.
        window_s: length of the windows [s].
        begin_us: beginning of the first of them [us].

    Attributes:
        at: the places of the rows in the table.
        times: of the rows [us].
    """

    def __init__(self, table: Table, time: str, texts: Sequence[str], window_s: int, begin_us: int) -> None:
        self.window_s = window_s
        self._begin_us = begin_us
        times = table[time].cast(pa.int64()).to_numpy()
        order = np.argsort(times, kind="stable")
        self.times, self.at = times[order], pa.array(order)
        # Texts are encoded chunk by chunk: all at once they take many times the memory of their numbers.
        encoded = (pc.fill_null(table[name], "").dictionary_encode().unify_dictionaries() for name in texts)
        self._texts = {name: each.combine_chunks().take(self.at) for name, each in zip(texts, encoded, strict=True)}

    def starts(self) -> list[int]:
        """The beginnings of the windows that have a row [us]."""
        length = self.window_s * 1_000_000
        return [int(each) for each in np.unique(self.times[self.times >= self._begin_us] // length) * length]

    def places(self, from_us: int, window: Span) -> tuple[int, int, int]:
        """The first row from a time on, the first of a window, and the one after its last."""
        first, own, last = np.searchsorted(self.times, (from_us, window.begin_us, window.end_us)).tolist()
        return first, own, last

    def codes(self, first: int, last: int) -> dict[str, Numbers]:
        """Places in `texts`, for the rows from `first` to before `last`."""
        return {name: as_numpy(each.indices)[first:last].astype(np.int64) for name, each in self._texts.items()}

    @property
    def texts(self) -> dict[str, Array]:
        """The distinct texts of each column."""
        return {name: each.dictionary for name, each in self._texts.items()}


@dataclass(slots=True, kw_only=True)
class Rows:
    """Some rows of a `TimedRows`.

    Attributes:
        times: of the rows [us].
        text: places in `texts`.
        number: columns of numbers.
        texts: the distinct texts of each column.
    """

    times: Numbers
    text: dict[str, Numbers]
    number: dict[str, Numbers]
    texts: dict[str, Array]

    def key(self, rows: Numbers, *names: str) -> Numbers:
        """A number per row that is equal for equal texts."""
        key = np.zeros(len(rows), np.int64)
        for name in names:
            key = key * max(len(self.texts[name]), 1) + self.text[name][rows]
        return key

    def texts_of(self, rows: Numbers, *names: str) -> list[Array]:
        """The texts of rows."""
        return [self.texts[name].take(pa.array(self.text[name][rows])) for name in names]

    def has(self, name: str) -> Numbers:
        """True for each row whose text is not empty."""
        return as_numpy(pc.not_equal(self.texts[name], ""))[self.text[name]]
