"""The engine for one machine: several processes, each of which computes the rows of some shards.

Every process reads all files of a batch and keeps the pushes of its own shards. To read them once and hand them over
would take longer: reading costs 0.2 us a point, of some 3 us that a point takes altogether.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic

import loky
from loky.process_executor import BrokenProcessPool

from fleetgauge.base.machine import memory_bytes
from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import RecordBatch, pa
from fleetgauge.fleet.engines.engine import Batch, Part, Result, Task, read_batch, set_aside
from fleetgauge.fleet.engines.parcels import in_order
from fleetgauge.fleet.errors import FleetError

MAX_PROCESSES: Final = 8
"""Most processes: with more of them, reading takes longer than computing, and Spark does better."""

_BYTES_A_PROCESS: Final = 8 * 1024 * 1024
"""Parquet of a landing zone that is worth a process of its own [B]: some 700,000 points, or two seconds."""

_MEMORY_A_PROCESS: Final = 1024 * 1024 * 1024
"""Memory of the machine that a process wants [B]: it takes some 650 MB."""

_LOOKS_EVERY_S: Final = 1.0
"""Time between looks whether the process that started this one is still there [s]."""


def processes_for(amount: int, most: int | None = None) -> int:
    """Number of processes for so much Parquet of a landing zone [B].

    `most` is by default the number of CPUs, as memory allows, at most 8; a container's limits count.
    """
    if most is None:
        most = min(loky.cpu_count(), memory_bytes() // _MEMORY_A_PROCESS, MAX_PROCESSES)
    return max(1, min(most, amount // _BYTES_A_PROCESS))


class InProcesses:
    """Runs parts side by side in processes of this machine, which end with `close` or with this process.

    Args:
        count: number of processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.parts = 4 * count
        self.shards = shards.shards_for(count)

    @cached_property
    def _pool(self) -> loky.ProcessPoolExecutor:
        # If this process is killed, the tracker of the pool's semaphores removes them, and would warn of each.
        os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
        return loky.ProcessPoolExecutor(self.count, initializer=_end_after, initargs=(os.getpid(),))

    def map(self, task: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """Applies `task` to each part."""
        try:
            yield from self._pool.map(task, parts)
        except BrokenProcessPool as error:
            raise FleetError(
                "a process that computes was killed, often because memory ran out: run again with --processes 1, or "
                "--engine spark; nothing was written twice, and the next run continues from here"
            ) from error

    def make(self, batch: Batch, bad: dict[str, str], task: Task[Result]) -> list[Result]:
        """Applies a task to the pushes of each process, which holds these in memory."""
        share = _Share(batch=batch, bad=frozenset(bad), task=task, of=self.count, shards=self.shards)
        outcomes = list(self.map(share, range(self.count)))
        for path in sorted({path for _, unread in outcomes for path in unread}):
            set_aside(bad, path)
        return [result for result, _ in outcomes]

    def close(self) -> None:
        """Ends the processes, whatever they do."""
        self._pool.shutdown(kill_workers=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share(Generic[Result]):
    """Applies a task to one process' part of a batch; returns its result and the files that cannot be read.

    Attributes:
        batch: what to read.
        bad: its files that are not read.
        task: what is made.
        of: number of processes, which have consecutive shards each.
        shards: number of shards.
    """

    batch: Batch
    bad: frozenset[str]
    task: Task[Result]
    of: int
    shards: int

    def __call__(self, number: int) -> tuple[Result, list[str]]:
        def own(rows: RecordBatch) -> RecordBatch:
            shard = shards.shards_of(rows.column("client_instance_id"), self.shards)
            return rows.filter(pa.array(shard * self.of // self.shards == number))

        rows, unread = read_batch(self.batch, self.bad, own)
        return self.task(in_order(rows)), unread


def _end_after(parent: int) -> None:
    """Ends this process within a second or two of the one that started it, however that one ends.

    A terminal or a service manager signals all processes at once: the first one decides what becomes of the work.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOKS_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
