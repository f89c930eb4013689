"""Reads several embedded logs as one: a node has one log per listener process (docs/operate/workers.md).

Every log has its own cursors, and a batch holds records of one log: so commits are as exact as with a single log, and a
batch that is read again after a crash begins at the same record. Records are ordered within a log, not between logs: a
client's pushes stay in order as long as its connection stays with one listener process.
"""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.push_log.embedded.lag import added_lags
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.log import Batch, Lag

_POLL_EVERY_MS: Final = 50
_SEPARATOR: Final = "."


class MergedPushLogReader:
    """The `PushLogReader` of several logs.

    The logs take turns. A log is due when it has a whole batch, or when its records have waited for `max_wait_ms`: a
    busy log cannot delay a quiet one, and a quiet one does not make the batches of a busy one small. The position of a
    batch is `<name of the log>.<position in it>`.

    Args:
        readers: at least one, by the name of its log, which contains no dot. They are closed with this one.
        time: the clock of `poll`'s wait.
    """

    def __init__(self, readers: Mapping[str, SqlitePushLogReader], *, time: Time) -> None:
        if not readers or any(_SEPARATOR in name for name in readers):
            raise ValueError(f"each log needs a name without {_SEPARATOR!r}, and there must be one: {list(readers)}")
        self._readers = dict(readers)
        self.exporter = next(iter(readers.values())).exporter
        self._time = time
        self._turns = deque(self._readers)
        self._taken_at_ms = dict.fromkeys(self._readers, time.hi_res_clock_ms())
        self._wake = threading.Event()

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        """See `PushLogReader.poll`; the bounds apply to each log by itself.

        Raises:
            PushLogError: a log cannot be read now. That was its turn: the next poll continues with the others.
        """
        deadline_ms = self._time.hi_res_clock_ms() + max_wait_ms
        while True:
            hurried = self._wake.is_set() or self._time.hi_res_clock_ms() >= deadline_ms
            batch = self._take_turns(max_bytes, max_records, 0 if hurried else max_wait_ms)
            if batch is not None or hurried:
                self._wake.clear()
                return batch
            remaining_ms = deadline_ms - self._time.hi_res_clock_ms()
            self._wake.wait(max(0, min(_POLL_EVERY_MS, remaining_ms)) / 1_000)

    def owned(self, batch: Batch) -> Batch:
        """See `PushLogReader.owned`: all of it."""
        return batch

    def commit(self, batch: Batch) -> int:
        """See `PushLogReader.commit`: moves the cursor of the log that the batch is from."""
        name, _, first = batch.first_position.partition(_SEPARATOR)
        last = batch.last_position.partition(_SEPARATOR)[2]
        return self._readers[name].commit(replace(batch, first_position=first, last_position=last))

    def wakeup(self) -> None:
        """See `PushLogReader.wakeup`."""
        self._wake.set()

    def lag(self) -> Lag:
        """See `PushLogReader.lag`."""
        return added_lags([reader.lag() for reader in self._readers.values()])

    def close(self) -> None:
        """See `PushLogReader.close`."""
        for reader in self._readers.values():
            reader.close()

    def _take_turns(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        """Reads the first log that is due, and moves it to the end of the queue."""
        for name in tuple(self._turns):
            if not self._is_due(name, max_bytes, max_records, max_wait_ms):
                continue
            self._turns.remove(name)
            self._turns.append(name)
            self._taken_at_ms[name] = self._time.hi_res_clock_ms()
            batch = self._readers[name].poll(max_bytes, max_records, 0)
            if batch is not None:
                return replace(
                    batch,
                    first_position=f"{name}{_SEPARATOR}{batch.first_position}",
                    last_position=f"{name}{_SEPARATOR}{batch.last_position}",
                )
        return None

    def _is_due(self, name: str, max_bytes: int, max_records: int, max_wait_ms: int) -> bool:
        if self._time.hi_res_clock_ms() - self._taken_at_ms[name] >= max_wait_ms:
            return True
        return self._readers[name].has_batch(max_bytes, max_records)
