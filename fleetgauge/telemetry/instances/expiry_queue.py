"""Expiry queue of client instances: one entry per instance, by the second of its deadline."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from fleetgauge.telemetry.instances.instance import ClientInstance

_SECOND_MS: Final = 1_000
_SLACK: Final = 1_024


class ExpiryQueue:
    """Instances by deadline. Times are monotonic [ms].

    A postponed deadline is detected when the old entry is due; an earlier deadline gets a new entry, and the old one
    is skipped. An entry is an item in the list of its second, which takes less memory than an object in a heap.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, list[ClientInstance]] = {}
        self._seconds: list[int] = []
        self._entries = 0

    def __len__(self) -> int:
        """Number of entries, including stale ones."""
        return self._entries

    def put(self, instance: ClientInstance, known: int) -> None:
        """Adds an instance with its current deadline; `known` is the total number of instances."""
        if self._entries > 2 * known + _SLACK:
            self._tidy()
        second = instance.queued_second = instance.deadline_ms // _SECOND_MS
        self._append(second, (instance,))

    def due(self, now_ms: int, known: Callable[[], int]) -> Iterator[ClientInstance]:
        """Yields the instances past their deadline; the caller removes each one before it takes the next."""
        while self._seconds and self._seconds[0] * _SECOND_MS <= now_ms:
            second = heapq.heappop(self._seconds)
            entries = self._buckets.pop(second)
            self._entries -= len(entries)
            later = []
            for instance in entries:
                if not _is_current(second, instance):
                    continue
                if instance.deadline_ms <= now_ms:
                    yield instance
                elif instance.deadline_ms // _SECOND_MS == second:
                    later.append(instance)
                else:
                    self.put(instance, known())
            if later:
                self._append(second, later)
                return  # the current second, which has not ended; all others are later

    def clear(self) -> None:
        """Removes all entries."""
        self._buckets.clear()
        self._seconds.clear()
        self._entries = 0

    def _append(self, second: int, instances: Iterable[ClientInstance]) -> None:
        bucket = self._buckets.get(second)
        if bucket is None:
            bucket = self._buckets[second] = []
            heapq.heappush(self._seconds, second)
        before = len(bucket)
        bucket.extend(instances)
        self._entries += len(bucket) - before

    def _tidy(self) -> None:
        """Removes stale entries."""
        buckets = {
            second: [instance for instance in bucket if _is_current(second, instance)]
            for second, bucket in self._buckets.items()
        }
        self._buckets = {second: bucket for second, bucket in buckets.items() if bucket}
        self._seconds = sorted(self._buckets)  # a sorted list is a heap
        self._entries = sum(map(len, self._buckets.values()))


def _is_current(second: int, instance: ClientInstance) -> bool:
    """True unless the entry's instance was removed or is queued under another second."""
    return second == instance.queued_second and instance.place >= 0
