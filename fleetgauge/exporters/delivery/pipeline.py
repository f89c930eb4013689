"""Delivers pushes of the push log to one destination (docs/deliver/delivery.md): poll, export, dead letters, commit.

`Pipeline._deliver_all` is the promise. Delivery is in the log's order and at least once. While the destination is away
the cursor waits; the cursor passes a push only when it was delivered, or was rejected permanently and is a dead letter.
Each pipeline has its own thread, so a slow destination delays no other.
"""

import random as _random
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.exporters.dead_letters.replay import Replay
from fleetgauge.exporters.dead_letters.store import DeadLetters
from fleetgauge.exporters.dead_letters.writer import DeadLetterWriter
from fleetgauge.exporters.delivery.ambiguous_rejections import AmbiguousRejections
from fleetgauge.exporters.delivery.rate import DrainThrottle
from fleetgauge.exporters.delivery.readable import export_readable, takes_any_payload
from fleetgauge.exporters.delivery.report import DeliveryReport
from fleetgauge.exporters.delivery.retry import Backoff
from fleetgauge.exporters.delivery.stats import DeliveryStats, PipelineState
from fleetgauge.exporters.exporter import (
    Delivered,
    Exporter,
    Outcome,
    Refusal,
    Refused,
    Retry,
    Settled,
    check_reachable,
    destination_of,
    export,
    halves,
    refusals,
)
from fleetgauge.push_log.log import Batch, CursorRevokedError, PushLogError, PushLogReader

_T = TypeVar("_T")

_IDLE_WAIT_MS: Final = 50
"""Wait between two polls of an empty log by an exporter whose linger time is shorter [ms]."""


class _StopError(Exception):
    """Ends a pipeline that stops: its time is over, or the log cannot be read."""


class Pipeline:
    """Delivers one exporter's share of the push log until it is stopped. Owns `reader`, and closes it.

    Args:
        reader: reads the push log from the exporter's cursor.
        exporter: the destination.
        time: the clocks.
        dead_letters: keeps pushes that the destination rejects permanently; None only counts them.
        drain_rate_bytes: rate at which a backlog is delivered [B/s of decompressed metrics]; None: without limit.
        random: uniform in [0, 1), for the backoff's jitter.
        pause: waits a number of ms before the next attempt; by default in real time, ended early by a stop.
    """

    close_grace_s: float = 1.0
    """Time that a running export may take to return after its exporter was closed [s]."""

    def __init__(
        self,
        reader: PushLogReader,
        exporter: Exporter,
        *,
        time: Time,
        dead_letters: DeadLetters | None = None,
        drain_rate_bytes: int | None = None,
        random: Callable[[], float] = _random.random,
        pause: Callable[[int], None] | None = None,
    ) -> None:
        self._reader = reader
        self._exporter = exporter
        self._takes_any_payload = takes_any_payload(exporter)
        self._time = time
        self._random = random
        self._pause = pause or self._wait
        self._report = DeliveryReport(exporter.name, destination_of(exporter), time)
        self._dead_letters = DeadLetterWriter(exporter.name, dead_letters, time, self._report.without_room)
        self._replay = (
            None if dead_letters is None else Replay(exporter, dead_letters, self._report.replayed, self._call)
        )
        self._replay_requested = threading.Event()
        self._throttle = None if drain_rate_bytes is None else DrainThrottle(drain_rate_bytes, exporter.batch, time)
        self._wake = threading.Event()
        self._deadline_ms: int | None = None
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The exporter's name."""
        return self._exporter.name

    def stats(self) -> DeliveryStats:
        """The counters so far. From any thread."""
        return self._report.snapshot()

    def start(self) -> None:
        """Runs the pipeline in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name=f"exporter-{self.name}", daemon=True)
        self._thread.start()

    def request_replay(self) -> None:
        """Makes the pipeline replay the requested dead letters, between two batches. From any thread."""
        self._replay_requested.set()
        self._reader.wakeup()

    def request_stop(self, timeout_ms: int) -> None:
        """Makes the pipeline deliver what is in the log now, for at most `timeout_ms`, and end. Returns at once."""
        self._deadline_ms = self._time.hi_res_clock_ms() + timeout_ms
        self._wake.set()
        self._reader.wakeup()

    def stop(self, timeout_ms: int) -> bool:
        """`request_stop`, and waits for the end. From any thread but the pipeline's own.

        Returns:
            False if an export still runs; its cursor has not moved, so the batch is delivered again.
        """
        self.request_stop(timeout_ms)
        return self.join()

    def join(self) -> bool:
        """Waits for the end of a pipeline whose stop was requested; see `stop`."""
        if self._thread is None or self._deadline_ms is None:
            return True
        self._thread.join(max(0, self._deadline_ms - self._time.hi_res_clock_ms()) / 1000)
        if self._thread.is_alive():
            self._close()  # ends an export that blocks
            self._thread.join(self.close_grace_s)
        return not self._thread.is_alive()

    def run(self) -> None:
        """Runs the pipeline in the calling thread, until it is stopped or another process takes its cursor."""
        state = PipelineState.STOPPED
        try:
            self._retry(self._start)
            self._check_destination()
            self._deliver_all()
        except _StopError:
            pass
        except CursorRevokedError as error:
            state = PipelineState.REVOKED
            self._report.log.error("delivery.cursor_revoked", message="the exporter ends here", detail=str(error))
        except BaseException:  # an exporter may even raise SystemExit, which a thread does not report
            self._report.log.exception(
                "delivery.pipeline_failed", message="this is a bug; the pushes wait in the log until a restart"
            )
            raise
        finally:
            self._report.enter(state)
            self._close()
            self._reader.close()

    def _deliver_all(self) -> None:
        """Delivers batch after batch; the cursor moves when all pushes of a batch are delivered or dead letters."""
        while not self._deadline_passed():
            batch = self._retry(self._poll)
            if batch is not None:
                self._keep_to_rate(batch)
                self._export(batch)
                self._report.passed_on(self._retry(partial(self._reader.commit, batch)))
                batch = None  # not held while the next one, which may be as large, is read
            elif self._deadline_ms is not None:
                return
            elif self._exporter.batch.linger_ms < _IDLE_WAIT_MS:
                self._pause(_IDLE_WAIT_MS)
            if self._deadline_ms is None and self._replay_requested.is_set():
                self._replay_batch()

    def _export(self, batch: Batch) -> None:
        """Exports a batch until each push is delivered, a dead letter, or another process's.

        A part that the destination does not accept whole is halved. If it rejects every push, and the destination may
        be at fault, the whole batch is exported again.
        """
        rejections = AmbiguousRejections(self._time)
        outage = Backoff(self._exporter.retry, self._random)
        parts = [batch]
        while parts:
            self._check_deadline()
            part = parts.pop()
            outcome = self._retry(partial(self._attempt, part))
            refused = () if outcome is None else refusals(part, outcome)
            if refused is None:
                self._report.split()
                parts.extend(reversed(halves(part)))
                continue
            if outcome is not None:
                self._keep(rejections.confirm(outcome, refused))
            if isinstance(outcome, Delivered):
                self._report.points_rejected(part, outcome)
            if not parts and (failure := rejections.failure()) is not None:
                # At most half of the time is spent on asking push by push.
                self._wait_out(failure, outage, at_least_ms=rejections.attempt_took_ms())
                rejections.begin_attempt()
                parts.append(batch)
        self._keep(rejections.take_rest())
        self._report.running(None if rejections.timed_out else outage.logged_at_ms)

    def _attempt(self, part: Batch) -> Settled | Retry | None:
        """Exports once what is still this reader's; None if another process has taken over all of it."""
        owned = self._reader.owned(part)
        if owned is None:
            return None
        started_ms = self._time.hi_res_clock_ms()
        outcome = self._call(owned)
        if isinstance(outcome, Delivered):
            self._report.delivered(owned, outcome, took_ms=self._time.hi_res_clock_ms() - started_ms)
        return outcome

    def _call(self, batch: Batch) -> Outcome:
        with self._report.calling():
            if self._takes_any_payload:
                return export(self._exporter, batch)
            return export_readable(partial(export, self._exporter), batch)

    def _keep(self, refused: tuple[Refusal, ...]) -> None:
        """Makes dead letters of pushes that the destination rejects permanently."""
        if refused:
            kept = self._retry(partial(self._dead_letters.write, refused))
            for refusal in refused:
                self._report.refused(refusal, kept=kept)

    def _poll(self) -> Batch | None:
        limits = self._exporter.batch
        linger_ms = limits.linger_ms if self._deadline_ms is None else 0
        try:
            return self._reader.poll(limits.max_bytes, limits.max_records, linger_ms)
        except PushLogError:
            if self._deadline_ms is None:
                raise
            raise _StopError from None  # what cannot be read now is delivered after the next start

    def _keep_to_rate(self, batch: Batch) -> None:
        """Waits while a backlog exceeds the drain rate."""
        while self._throttle is not None and not self._deadline_passed() and (wait_ms := self._throttle.wait_ms(batch)):
            self._pause(self._until_deadline(wait_ms))

    def _replay_batch(self) -> None:
        """Replays one batch of dead letters; if there are more, another one follows after the next batch of the log."""
        if self._replay is None:
            return
        self._replay_requested.clear()
        more = self._guarded(self._replay.deliver_batch)
        if isinstance(more, Retry):
            self._report.failed(more)
        elif more:
            self.request_replay()

    def _start(self) -> Retry | None:
        """Starts the exporter. Nothing is polled before that, so that no share of the log is held in vain."""
        try:
            with self._report.calling():
                self._exporter.start()
        except FleetgaugeError as error:  # names the remedy: no traceback
            return Retry(reason="start", detail=str(error))
        return None

    def _check_destination(self) -> None:
        """Logs at once that the destination cannot be reached: the first push may come much later."""
        with self._report.calling():
            failure = self._guarded(partial(check_reachable, self._exporter))
        if failure is not None:
            self._report.unreachable(failure)

    def _close(self) -> None:
        try:
            self._exporter.close()
        except Exception:  # an exporter may raise anything; the reader must be closed all the same
            self._report.log.exception("delivery.close_failed")

    def _retry(self, attempt: Callable[[], _T | Retry]) -> _T:
        """Repeats an operation until it succeeds, and returns its result.

        Raises:
            _StopError: it failed while the pipeline stops, and there is no use, or no time left, in another attempt.
            CursorRevokedError: another process has taken the cursor over.
        """
        outage = Backoff(self._exporter.retry, self._random)
        while isinstance(result := self._guarded(attempt), Retry):
            self._wait_out(result, outage)
        if not (isinstance(result, Refused) and result.in_doubt):  # by a destination that may itself have failed
            self._report.running(outage.logged_at_ms)
            if outage.failed:
                self._report.recovered()
        return result

    def _guarded(self, attempt: Callable[[], _T | Retry]) -> _T | Retry:
        """Calls `attempt`; an exception is a reason to retry, so that no bug in an exporter loses a push."""
        try:
            return attempt()
        except (CursorRevokedError, _StopError):
            raise
        except PushLogError as error:
            return Retry(reason="push_log", detail=str(error))
        except Exception as error:  # noqa: BLE001  # an exporter may raise anything
            return self._report.raised(error)

    def _wait_out(self, failure: Retry, outage: Backoff, at_least_ms: int = 0) -> None:
        """Reports a failure, and waits before the next attempt.

        Raises:
            _StopError: no time is left for another attempt.
        """
        outage.failed = True
        if self._report.failed(failure) and outage.logged_at_ms is None:
            outage.logged_at_ms = self._time.hi_res_clock_ms()
        self._check_deadline()
        self._pause(self._until_deadline(max(outage.next_ms(failure.after_ms), at_least_ms)))

    def _deadline_passed(self) -> bool:
        return self._deadline_ms is not None and self._time.hi_res_clock_ms() >= self._deadline_ms

    def _check_deadline(self) -> None:
        if self._deadline_passed():
            raise _StopError

    def _until_deadline(self, wait_ms: int) -> int:
        if self._deadline_ms is None:
            return wait_ms
        return max(0, min(wait_ms, self._deadline_ms - self._time.hi_res_clock_ms()))

    def _wait(self, wait_ms: int) -> None:
        if self._wake.wait(wait_ms / 1000):
            self._wake.clear()  # a stop ends one wait early; further attempts until its deadline keep their backoff
