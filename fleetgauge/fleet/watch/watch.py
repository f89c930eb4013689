"""`fleet watch` and `fleet run --continuous`: processes new input into the tables in rounds, and delivers changes of
`verdicts` to destinations.

A round is what `fleet run` does. Then each destination gets what it does not know yet: what it got is in the table
`delivered`, so that it neither misses a change nor holds others up, however long it is away. Each has a thread:
one that does not come back holds up neither rounds, nor the others, nor the end.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import Final, TypeVar

from deltalake.exceptions import DeltaError

from fleetgauge.base.clock import Time
from fleetgauge.base.deadline import in_thread
from fleetgauge.fleet.errors import (
    BusyError,
    FleetError,
    NotInstalledError,
    SparkEndedError,
    TableError,
    UnreadableTableError,
)
from fleetgauge.fleet.pipeline.report import RunReport
from fleetgauge.fleet.pipeline.run import RunContext, RunRequest, explained, run
from fleetgauge.fleet.report.cells import json_dicts
from fleetgauge.fleet.spark.interrupt import EXIT_INTERRUPTED, handling
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.lock import only_run
from fleetgauge.fleet.tables.paths import qualified, storage_options
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.watch.changes import Change, Kind, Row, changes
from fleetgauge.fleet.watch.delivered import Delivered, text_of
from fleetgauge.fleet.watch.destinations import Destination
from fleetgauge.fleet.watch.http import DeliveryError, RefusedError

REPEAT_S: Final = 120.0
"""Interval at which open verdicts are repeated to a destination that would forget them [s]."""

_MOST_AT_ONCE: Final = 100
"""Most changes in one delivery."""

_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 300.0
_LEAST_WAIT_MS: Final = 1_000
_GIVES_UP_AFTER_MS: Final = 300_000
"""With `once`: how long to retry a delivery [ms]."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """Parameters of a watch.

    Attributes:
        run: what a round reads and writes.
        since: verdicts that were seen last before then are not delivered to a destination that is new.
        destinations: in their order.
        trigger_s: a round every so often [s].
        once: one round.
        consequences: deliver verdicts, too, that another one explains.
    """

    run: RunRequest
    since: datetime
    destinations: Sequence[Destination] = ()
    trigger_s: float = 20.0
    once: bool = False
    consequences: bool = False


def watch(
    request: WatchRequest,
    context: RunContext,
    note: Callable[[str], None],
    report: Callable[[RunReport], None] | None = None,
) -> None:
    """Watches until SIGTERM or SIGINT, or for one round.

    Args:
        request: what was asked.
        context: what every round works with; with `progress` each is a line, too. One session of Spark is kept.
        note: prints a line about what is wrong, and about the end.
        report: called with the report of each round that had anything to do.

    Raises:
        FleetError: with one sentence on what waiting does not mend; with `once`, on whatever is wrong.
    """
    with explained(f"fleet watch of {request.run.source}"):
        store = Store(qualified(request.run.tables), storage_options(context.conf))
        is_terminal = context.notes.is_terminal
        with_bar = replace(context, progress=context.progress and is_terminal)

        def round_() -> RunReport:
            done = run(request.run, with_bar)
            if report is not None and done.is_news:
                report(done)
            return done

        step = note if context.progress else lambda _: None
        with only_run(store.root, what="watch is using the tables", name="_watch"), _until_signal() as stop:
            loop = Loop(request, store, round_, clock=context.clock, wait=stop.wait, note=note, step=step)
            loop.run(says_nothing=is_terminal)
        if loop.unfinished and not request.once:
            os._exit(0)  # a thread that writes to a full pipe would hold up the interpreter's end


def _nothing() -> "Future[list[Change]]":
    future: Future[list[Change]] = Future()
    future.set_result([])
    return future


@dataclass(slots=True, kw_only=True)
class _Receiver:
    """A destination, its delivered verdicts, and the time of its next attempt.

    Attributes:
        repeated_ms: when open verdicts were repeated last; None before.
        error: reason why the latest delivery failed; None if it succeeded.
        retry_ms: earliest time of the next attempt after a failure.
        wait_s: wait after the last failure.
        failing_ms: time of the first failure.
        delivery: the latest one; while it runs, only its thread changes these fields.
    """

    destination: Destination
    delivered: Delivered
    repeated_ms: int | None = None
    error: DeliveryError | None = None
    retry_ms: int = 0
    wait_s: float = 0.0
    failing_ms: int = 0
    delivery: "Future[list[Change]]" = field(default_factory=_nothing)

    def due_ms(self) -> int | None:
        """Time of the next action without new input; at once while a delivery is in progress."""
        if not self.delivery.done():
            return 0
        if self.error is not None:
            return self.retry_ms
        if self.destination.repeats and self.repeated_ms is not None:
            return self.repeated_ms + round(1_000 * REPEAT_S)
        return None


@dataclass(slots=True)
class Loop:
    """Runs rounds and deliveries.

    Args:
        request: what was asked.
        store: the tables.
        round_: reads what is new.
        clock: the time.
        wait: waits for so long [s]; True if the watch is to stop.
        note: called with error sentences.
        step: called with the line about a round.
        patience_s: how long a round waits for deliveries, to count them [s].
        stops_within_s: how long the end waits for deliveries [s]; with a round's wait less than 10 s.
    """

    request: WatchRequest
    store: Store
    round_: Callable[[], RunReport]
    _: KW_ONLY
    clock: Time
    wait: Callable[[float], bool]
    note: Callable[[str], None]
    step: Callable[[str], None]
    patience_s: float = 2.0
    stops_within_s: float = 7.0
    _rows: tuple[int, list[Row]] = field(default_factory=lambda: (-1, []))
    _receivers: list[_Receiver] = field(default_factory=list)

    def __post_init__(self) -> None:
        writing = threading.Lock()
        for each in self.request.destinations:
            delivered = Delivered(self.store, each.name, self.request.since, writing)
            self._receivers.append(_Receiver(destination=each, delivered=delivered))

    @property
    def unfinished(self) -> list[str]:
        """Destinations with a delivery in progress."""
        return [each.destination.name for each in self._receivers if not each.delivery.done()]

    def run(self, *, says_nothing: bool = False) -> None:
        """Runs until it is stopped.

        Args:
            says_nothing: note a round that did nothing, too.
        """
        self._deliver()  # what an earlier watch had left, and open verdicts before they are forgotten
        wait_s = 0.0
        while True:
            began_ms = self.clock.hi_res_clock_ms()
            report = self._read()
            changes = self._deliver()
            if report is not None and (says_nothing or report.is_news or changes):
                self.step(self._line(report, changes, self.clock.hi_res_clock_ms() - began_ms))
            if self.request.once:
                self._finish()
                return
            wait_s = 0.0 if report is not None else _longer(wait_s)
            if self._wait_until(began_ms + round(1_000 * max(self.request.trigger_s, wait_s))):
                break
        self._taken(self.stops_within_s)
        for each in self.unfinished:
            self.note(f"{each} has not confirmed its latest delivery: the next start repeats it")
        count = len({name for each in self._receivers for name in each.delivered.open})
        self.note(f"stopped: {count:,} verdicts are open; the next start continues from here")

    def _read(self) -> RunReport | None:
        """Runs a round; returns None if something that it needs is unavailable."""
        try:
            return self.round_()
        except (NotInstalledError, SparkEndedError):
            raise
        except FleetError as error:
            for_good = isinstance(error, TableError) and not isinstance(error, BusyError | UnreadableTableError)
            if self.request.once or for_good:
                raise
            self.note(f"{error}: retrying")
            return None

    def _wait_until(self, next_ms: int) -> bool:
        """Waits for the next round and makes due deliveries meanwhile; True if the watch is to stop."""
        while (now_ms := self.clock.hi_res_clock_ms()) < next_ms:
            due_ms = min([next_ms, *(at for each in self._receivers if (at := each.due_ms()) is not None)])
            if self.wait(max(due_ms - now_ms, _LEAST_WAIT_MS) / 1_000):
                return True
            if self.clock.hi_res_clock_ms() < next_ms:
                self._deliver()
        return self.wait(0)

    def _finish(self) -> None:
        """With `once`: retries deliveries for a while.

        Raises:
            FleetError: one of them does not take what there is.
        """
        while failing := [each for each in self._receivers if each.error is not None]:
            now_ms = self.clock.hi_res_clock_ms()
            hopeful = [
                each
                for each in failing
                if not isinstance(each.error, RefusedError) and now_ms - each.failing_ms < _GIVES_UP_AFTER_MS
            ]
            stops = hopeful and self.wait(max(min(each.retry_ms for each in hopeful) - now_ms, _LEAST_WAIT_MS) / 1_000)
            if stops or not hopeful:
                raise FleetError(f"{_fault(failing[0])}: the next watch delivers them")
            self._deliver()

    def _deliver(self) -> list[Change]:
        """Starts deliveries of new changes to each destination without one in progress; returns the changes that the
        first destination accepted in time.
        """
        try:
            rows = self._read_rows()
        except (TableError, DeltaError, OSError) as error:
            self.note(f"the table verdicts cannot be read: {' '.join(str(error).split())}")
            return []
        if rows is None:
            return []
        for each in self._receivers:
            if each.delivery.done():
                each.delivery = in_thread(partial(self._deliver_to, each, rows))
        changes = self._taken(self.patience_s)
        while self.request.once and (left := self.unfinished):
            if self.wait(_LEAST_WAIT_MS / 1_000):
                raise FleetError(f"{left[0]} has not confirmed its latest delivery: the next watch repeats it")
            changes = self._taken(0)
        return changes

    def _taken(self, within_s: float) -> list[Change]:
        """Changes that the first destination accepted, once deliveries have ended or the time is up [s]."""
        wait([each.delivery for each in self._receivers], within_s)
        results = [each.delivery.result() if each.delivery.done() else [] for each in self._receivers]
        return results[0] if results else []

    def _deliver_to(self, receiver: _Receiver, rows: Sequence[Row]) -> list[Change]:
        now_ms = self.clock.hi_res_clock_ms()
        if receiver.error is not None and now_ms < receiver.retry_ms:
            return []
        at = datetime.fromtimestamp(self.clock.milliseconds() / 1000, UTC)
        delivered, destination = receiver.delivered, receiver.destination
        pending = changes(
            rows,
            delivered.rows,
            since=delivered.since,
            now=text_of(at),
            consequences=self.request.consequences,
        )
        try:
            delivered.begin()
            for some in batched(pending, _MOST_AT_ONCE):
                destination.deliver(some, at)
                delivered.take(some, at, rows)
            last_ms = receiver.repeated_ms
            if destination.repeats and (last_ms is None or now_ms - last_ms >= 1_000 * REPEAT_S):
                for names in batched(list(delivered.open), _MOST_AT_ONCE):
                    destination.repeat({name: delivered.rows[name] for name in names}, at)
                receiver.repeated_ms = now_ms
        except DeliveryError as error:
            self._put_off(receiver, error, now_ms)
            return []
        receiver.error, receiver.wait_s = None, 0.0
        return pending

    def _put_off(self, receiver: _Receiver, error: DeliveryError, now_ms: int) -> None:
        if receiver.error is None:
            receiver.failing_ms = now_ms
        receiver.error = error
        receiver.wait_s = _longer(receiver.wait_s)
        receiver.retry_ms = now_ms + round(1_000 * receiver.wait_s)
        self.note(f"{_fault(receiver)}: retrying in {receiver.wait_s:.0f} s")

    def _read_rows(self) -> list[Row] | None:
        """The table `verdicts`, read again if it has changed; None if it does not exist."""
        if not self.store.has(catalog.VERDICTS):
            return None
        log = self.store.log(catalog.VERDICTS)
        if (version := log.version()) != self._rows[0]:
            order = catalog.VERDICTS.schema.names
            table = log.rows().select(order)
            self._rows = version, [row for batch in table.to_batches() for row in json_dicts(batch)]
        return self._rows[1]

    def _line(self, report: RunReport, changes: Sequence[Change], took_ms: int) -> str:
        """Result of a round as one line for an operator."""
        counts = {kind: sum(change.kind is kind for change in changes) for kind in Kind}
        odd = {"set aside": sum(report.rejects.values()), "lost": report.lost, "files changed": len(report.changed)}
        is_open = sum(row["state"] == "open" for row in self._rows[1])
        parts = [
            f"{report.total('pushes'):,} pushes",
            f"{counts[Kind.OPENED]:,} verdicts opened, {counts[Kind.CLEARED]:,} cleared, {is_open:,} open",
            *(f"{count:,} {what}" for what, count in odd.items() if count),
            f"{took_ms / 1_000:,.1f} s",
        ]
        at = datetime.fromtimestamp(self.clock.milliseconds() / 1000, UTC)
        return f"{at:%H:%M:%S} " + "; ".join(parts)


def _fault(receiver: _Receiver) -> str:
    return f"{receiver.destination.name} did not accept verdicts ({receiver.error})"


def batched(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Slices of at most `size` items."""
    return (items[begin : begin + size] for begin in range(0, len(items), size))


def _longer(wait_s: float) -> float:
    return min(max(2 * wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S)


@contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """Event that SIGTERM or SIGINT sets: the current round is finished first. A second signal ends it at once."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(EXIT_INTERRUPTED)
        stop.set()

    with handling([signal.SIGTERM, signal.SIGINT], handle):
        yield stop
