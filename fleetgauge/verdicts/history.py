"""Expected values of many keys, which follow from the values before, and how far values are from them."""

from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers, Table, pa

_SETTLES_S: Final = 6 * 3600
"""Time after which a lasting change has mostly become the expected value of a history [s]."""

_MOST: Final = 0.3
"""Largest difference of a window that a history learns from (log): outliers move it little. A doubled value has become
the expected one after about 14 hours."""

_MOST_NOISE: Final = float(np.log(2))
"""Most that a value counts for in the noise (log): a fault raises it by 0.01 in five minutes."""


class History:
    """The expected value of each key: a running mean of the logarithm over time, which outliers move little; and its
    noise: the mean distance of a value from it.
    """

    def __init__(self, keys: Numbers, mean: Numbers, seconds: Numbers, noise: Numbers) -> None:
        self.keys, self._mean, self._seconds, self._noise = keys, mean, seconds, noise
        self._latest: tuple[Numbers, Numbers, Numbers] | None = None

    @classmethod
    def empty(cls) -> "History":
        """A history without keys."""
        return cls(np.zeros(0, np.int64), *np.zeros((3, 0)))

    def expected(self, keys: Numbers, least_s: float) -> Numbers:
        """Mean of each key; NaN where less than `least_s` was seen."""
        at, is_known = self._find(keys)
        means, known = np.full(len(keys), np.nan), np.flatnonzero(is_known)
        known = known[self._seconds[at[known]] >= least_s]
        means[known] = self._mean[at[known]]
        return means

    def noise(self, keys: Numbers) -> Numbers:
        """Mean distance of the values of each key from their mean; 0 where it is not known."""
        at, is_known = self._find(keys)
        noise = np.zeros(len(keys))
        noise[is_known] = self._noise[at[is_known]]
        return noise

    def learn(self, keys: Numbers, values: Numbers, covered_s: Numbers | int, least_s: float) -> None:
        """Updates the means of distinct keys by values that cover `covered_s` each [s]; NaN is ignored.

        Until `least_s` was seen low outliers count in full, since a start is slow. High ones do not: of 2.7, 2.9 and
        15.8 ms, 3.2 ms are usual, not 5.2.
        """
        has = ~np.isnan(values)
        at, is_known = (each[has] for each in self._find(keys))
        keys, values = keys[has], values[has]
        old = at[is_known]
        own_s: Numbers | int = covered_s
        if isinstance(covered_s, np.ndarray):
            own_s, new_s = covered_s[has][is_known], covered_s[has][~is_known]
        else:
            new_s = np.full(np.count_nonzero(~is_known), float(covered_s))
        step, seen_s = values[is_known] - self._mean[old], self._seconds[old]
        is_new = seen_s < least_s
        is_usual = is_new | (np.abs(step) < _MOST)
        weight = np.maximum(np.where(is_usual, own_s / (seen_s + own_s), 0.0), np.minimum(own_s / _SETTLES_S, 1.0))
        distance = np.minimum(np.abs(step), _MOST_NOISE)
        self._noise[old] += weight * (np.where(seen_s > own_s, distance, 0.0) - self._noise[old])
        least = np.where(is_new, -np.inf, -_MOST)
        self._mean[old] += weight * np.clip(step, least, _MOST)
        self._seconds[old] += own_s
        self._add(keys[~is_known], values[~is_known], new_s)

    def put(self, keys: Numbers, values: Numbers, at_s: float = 0.0) -> None:
        """Replaces the values of distinct keys by those of the time `at_s` [s]; NaN is ignored."""
        keys, values = keys[~np.isnan(values)], values[~np.isnan(values)]
        at, is_known = self._find(keys)
        self._mean[at[is_known]], self._seconds[at[is_known]] = values[is_known], at_s
        self._add(keys[~is_known], values[~is_known], np.full(np.count_nonzero(~is_known), at_s))

    def put_after(self, at_s: float) -> tuple[Numbers, Numbers]:
        """The keys and values that were put after a time [s]."""
        is_later = self._seconds > at_s
        return self.keys[is_later], self._mean[is_later]

    def _add(self, keys: Numbers, values: Numbers, seconds: Numbers) -> None:
        self._latest = None
        if not len(keys):
            return
        every = np.concatenate([self.keys, keys])
        order = np.argsort(every, kind="stable")
        self.keys = every[order]
        self._mean = np.concatenate([self._mean, values])[order]
        self._seconds = np.concatenate([self._seconds, seconds])[order]
        self._noise = np.concatenate([self._noise, np.zeros(len(keys))])[order]

    def _find(self, keys: Numbers) -> tuple[Numbers, Numbers]:
        """The places of keys, and which of them are known; of the same keys as before without a search."""
        if self._latest is not None and self._latest[0] is keys:
            return self._latest[1:]
        if not len(self.keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        if np.array_equal(self.keys, keys):
            self._latest = keys, np.arange(len(keys)), np.ones(len(keys), np.bool_)
            return self._latest[1:]
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        self._latest = keys, at, self.keys[at] == keys
        return self._latest[1:]

    def rename(self, keys: Numbers) -> None:
        """Replaces each key by a new one; those below 0 are forgotten."""
        self._latest = None
        order = np.argsort(keys, kind="stable")
        order = order[keys[order] >= 0]
        self.keys, self._mean, self._seconds, self._noise = (
            keys[order], self._mean[order], self._seconds[order], self._noise[order]
        )  # fmt: skip

    def add(self, other: "History") -> None:
        """Adds keys that are all new."""
        self._latest = None
        self.keys = np.append(self.keys, other.keys)
        self._mean, self._seconds = np.append(self._mean, other._mean), np.append(self._seconds, other._seconds)
        self._noise = np.append(self._noise, other._noise)
        self.rename(self.keys)

    def table(self) -> Table:
        """The keys and their means, for storage."""
        return pa.table({"key": self.keys, "mean": self._mean, "seconds": self._seconds, "noise": self._noise})

    @classmethod
    def of(cls, table: Table) -> "History":
        """Restores a history from what `table` returned."""
        return cls(*(table[name].to_numpy().copy() for name in ("key", "mean", "seconds", "noise")))
