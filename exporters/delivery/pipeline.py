"""One road from the push log to any destination: poll, export, try again, commit (DESIGN, "Exporters").

A destination's outage is a cursor that waits. Nothing is given up but what the destination will never take, and that
is counted by reason and kept among the dead letters before the cursor passes it. A pipeline runs in a thread of its
own, so that one slow destination holds up no other.
"""

import random as _random
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from base.clock import Time
from base.errors import FleetgaugeError
from base.log_limiter import LogLimiter
from exporters.dead_letters.replay import Replay
from exporters.dead_letters.store import DeadLetters
from exporters.dead_letters.writer import Burial
from exporters.delivery.ambiguous_rejections import Suspicion
from exporters.delivery.outcome import (
    Delivered,
    Exporter,
    Outcome,
    Refusal,
    Refused,
    Retry,
    TooLarge,
    destination_of,
    halves,
    outcome_of,
    reach,
    refusals,
    words,
)
from exporters.delivery.rate import DrainRate
from exporters.delivery.retry import Backoff
from exporters.delivery.stats import DeliveryCounters, DeliveryStats, PipelineState
from push_log.log import Batch, CursorRevokedError, PushLogError, PushLogReader

log = structlog.get_logger(__name__)

_Settled = Delivered | TooLarge | Refused
IN_DOUBT_FOR_MS: Final = 600_000
"""For so long a batch is tried again whose every push its destination refuses without a word on whose fault it is."""
_LOOK_EVERY_MS: Final = 50
"""How often an idle log is looked at by an exporter that lingers for less [ms]."""
_PASSED_ON: Final = Delivered()
"""Of a part that another process has by now. It says nothing of the destination."""
_CLOSE_GRACE_S = 1.0
"""How long a running export may take to notice that its exporter was closed."""


class Pipeline:
    """Delivers one exporter's share of the push log until it is stopped. Takes over `reader` and closes it.

    Args:
        reader: where the pushes come from.
        exporter: where they go.
        time: the clocks.
        dead_letters: where refused pushes are kept; None only counts them.
        drain_rate_bytes: at which rate a backlog is delivered [B/s of decompressed metrics]; None: as fast as it goes.
        random: uniform in [0, 1), for the backoff's jitter.
        pause: waits so many ms before another try; by default in real time, interrupted by a stop.
    """

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
        self._time = time
        self._random = random
        self._pause = pause or self._wait
        self._counters = DeliveryCounters(exporter.name)
        self._calm = LogLimiter()
        self._log = log.bind(exporter=exporter.name)
        self._destination = destination_of(exporter)
        self._burial = Burial(exporter.name, dead_letters, time)
        self._replay = None if dead_letters is None else Replay(exporter, dead_letters)
        self._replay_asked = threading.Event()
        self._drain = None if drain_rate_bytes is None else DrainRate(drain_rate_bytes, exporter.batch, time)
        self._wake = threading.Event()
        self._deadline_ms: int | None = None
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The exporter's name."""
        return self._exporter.name

    def stats(self) -> DeliveryStats:
        """What was done so far. From any thread."""
        return self._counters.snapshot()

    def start(self) -> None:
        """Runs the pipeline in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name=f"exporter-{self.name}", daemon=True)
        self._thread.start()

    def request_replay(self) -> None:
        """Has the pipeline deliver, between two batches, the letters whose replay was asked for. From any thread."""
        self._replay_asked.set()
        self._reader.wakeup()

    def request_stop(self, timeout_ms: int) -> None:
        """Has the pipeline deliver what is in the log now, for at most `timeout_ms`, and end. Returns at once."""
        self._deadline_ms = self._time.hi_res_clock_ms() + timeout_ms
        self._wake.set()
        self._reader.wakeup()

    def stop(self, timeout_ms: int) -> bool:
        """`request_stop`, and waits for the end. From any thread but the pipeline's own.

        Returns:
            False if an export still runs; its cursor has not moved, so it comes again.
        """
        self.request_stop(timeout_ms)
        return self.join()

    def join(self) -> bool:
        """Waits for the end of a pipeline that was asked to stop; see `stop`."""
        if self._thread is None or self._deadline_ms is None:
            return True
        self._thread.join(max(0, self._deadline_ms - self._time.hi_res_clock_ms()) / 1000)
        if self._thread.is_alive():
            self._close()  # ends an export that blocks
            self._thread.join(_CLOSE_GRACE_S)
        return not self._thread.is_alive()

    def run(self) -> None:
        """The pipeline itself, in the calling thread, until it is stopped or its cursor is taken over."""
        state = PipelineState.STOPPED
        try:
            if self._until_settled(self._start) is not None:
                self._look_for_destination()
                self._deliver_all()
        except CursorRevokedError as error:
            state = PipelineState.REVOKED
            self._log.error("another process has taken over this exporter's cursor; it ends here", detail=str(error))
        except BaseException:  # an exporter may even raise SystemExit, which a thread ends with in silence
            self._log.exception("the exporter ends for a fault of ours; its pushes wait in the log until a restart")
            raise
        finally:
            self._counters.enter(state)
            self._close()
            self._reader.close()

    def _close(self) -> None:
        try:
            self._exporter.close()
        except Exception:  # noqa: BLE001  # whatever a destination raises, the others are to be closed, too
            self._log.exception("the exporter cannot be closed")

    def _start(self) -> Outcome:
        """Has the exporter make ready. Before it has, nothing is polled, and so no share of the log is held."""
        try:
            self._exporter.start()
        except FleetgaugeError as error:  # says what to do: no traceback
            return Retry(reason="start", detail=str(error))
        return Delivered()

    def _look_for_destination(self) -> None:
        """Logs at once that the destination cannot be reached: the first push may come much later."""
        found = self._guarded(lambda: reach(self._exporter) or Delivered())
        if isinstance(found, Retry):
            self._counters.unreachable(found.reason, found.detail, now_us=self._time.microseconds())
            self._log.warning(
                "cannot reach the destination; pushes wait in the log and are tried until it takes them",
                destination=self._destination,
                reason=words(found.reason),
                detail=words(found.detail),
            )

    def _deliver_all(self) -> None:
        while not self._out_of_time():
            batch = self._next_batch()
            if batch is not None:
                self._deliver(batch)
            elif self._deadline_ms is not None:
                return
            elif self._exporter.batch.linger_ms < _LOOK_EVERY_MS:
                self._pause(_LOOK_EVERY_MS)
            if self._replay is not None and self._replay_asked.is_set() and self._deadline_ms is None:
                self._replay_some(self._replay)

    def _next_batch(self) -> Batch | None:
        polled: list[Batch | None] = []

        def poll() -> Outcome:
            limits = self._exporter.batch
            linger_ms = limits.linger_ms if self._deadline_ms is None else 0
            polled.append(self._reader.poll(limits.max_bytes, limits.max_records, linger_ms))
            return Delivered()

        self._until_settled(poll)
        return polled[0] if polled else None

    def _deliver(self, batch: Batch) -> None:
        """Exports the batch and moves the cursor past it. A destination that seems at fault is given time."""
        self._keep_to_rate(batch)
        backoff = Backoff(self._exporter.retry, self._random)
        began_ms = tried_ms = self._time.hi_res_clock_ms()
        said_at_ms: int | None = None
        blames_pushes = False
        while isinstance(outcome := self._deliver_parts(batch, blames_pushes), Retry):
            said_at_ms = self._said_waits(outcome, said_at_ms)
            if self._out_of_time():
                return
            now_ms = self._time.hi_res_clock_ms()  # no more than half of the time goes into asking push by push
            self._pause(self._within_deadline(max(backoff.next_ms(), now_ms - tried_ms)))
            tried_ms = self._time.hi_res_clock_ms()
            blames_pushes = tried_ms - began_ms >= IN_DOUBT_FOR_MS
        if outcome is not None:
            self._resume(None if blames_pushes else said_at_ms)
            self._until_settled(partial(self._commit, batch))

    def _deliver_parts(self, batch: Batch, blames_pushes: bool) -> Delivered | Retry | None:
        """Exports the batch, in parts where the destination will not have it whole; None where a stop came first."""
        suspicion = Suspicion(of_pushes=blames_pushes)
        parts = [batch]
        while parts:
            part = parts.pop()
            outcome = None if self._out_of_time() else self._until_settled(partial(self._export, part))
            if outcome is None:
                return None
            if outcome is _PASSED_ON:
                continue
            refused = refusals(part, outcome)
            if refused is None:
                self._counters.split()
                parts.extend(reversed(halves(part)))
            elif not self._set_aside(suspicion.certain(outcome, refused)):
                return None
            else:
                self._count_rejected(part, outcome)
        rest = suspicion.rest()
        if isinstance(rest, Retry):
            return rest
        return Delivered() if self._set_aside(rest) else None

    def _keep_to_rate(self, batch: Batch) -> None:
        """Waits while a backlog is delivered faster than it may be."""
        while self._drain is not None and not self._out_of_time() and (wait_ms := self._drain.wait_ms(batch)):
            self._pause(self._within_deadline(wait_ms))

    def _set_aside(self, refused: tuple[Refusal, ...]) -> bool:
        """Keeps what was refused and counts it; False when a stop's deadline came first."""
        if not refused:
            return True
        outcome = self._until_settled(partial(self._burial.bury, refused))
        if outcome is None:
            return False
        if self._burial.left_out:
            self._counters.without_room(len(refused))
        for refusal in refused:
            self._count_refused(refusal)
        return True

    def _replay_some(self, replay: Replay) -> None:
        """One batch of dead letters; as long as there are more, one follows after each batch of the log."""
        self._replay_asked.clear()
        outcome = self._guarded(replay.take)
        if not isinstance(outcome, Retry):
            outcome = self._guarded(replay.deliver)
        if isinstance(outcome, Retry):
            self._say_waits(outcome)
        self._counters.replayed(replay.delivered)
        if replay.more:
            self.request_replay()

    def _export(self, part: Batch) -> Outcome:
        """One try; what passed to another process while the destination was away is left to that one."""
        owned = self._reader.owned(part)
        return _PASSED_ON if owned is None else self._export_owned(owned)

    def _export_owned(self, part: Batch) -> Outcome:
        started_ms = self._time.hi_res_clock_ms()
        outcome = outcome_of(self._exporter, part)
        if isinstance(outcome, Delivered):
            took_ms = self._time.hi_res_clock_ms() - started_ms
            self._counters.delivered(part, outcome, now_us=self._time.microseconds(), took_ms=took_ms)
        return outcome

    def _commit(self, batch: Batch) -> Outcome:
        passed_on = self._reader.commit(batch)
        if passed_on:
            self._counters.passed_on(passed_on)
            self._log.info("pushes passed to another process with their partitions", pushes=passed_on)
        return Delivered()

    def _count_rejected(self, part: Batch, outcome: _Settled) -> None:
        if not isinstance(outcome, Delivered) or not outcome.rejected:
            return
        if count := self._occurrences("rejected"):
            self._log.warning(
                "the destination rejected data points of a batch that it took",
                rejected=outcome.rejected,
                pushes=len(part.records),
                detail=words(outcome.detail),
                occurrences=count,
            )

    def _count_refused(self, refusal: Refusal) -> None:
        reason = self._counters.refused(refusal.reason, refusal.detail, now_us=self._time.microseconds())
        if count := self._occurrences(f"refused {reason}"):
            self._log.warning(
                "a push cannot be delivered and is left out",
                push_id=refusal.record.push_id,
                reason=words(refusal.reason),
                detail=words(refusal.detail),
                kept=self._burial.keeps,
                occurrences=count,
            )

    def _until_settled(self, attempt: Callable[[], Outcome]) -> _Settled | None:
        """Tries until the answer is not `Retry`; None when a stop's deadline came first."""
        backoff = Backoff(self._exporter.retry, self._random)
        said_at_ms: int | None = None
        failed = False
        while True:
            outcome = self._guarded(attempt)
            if isinstance(outcome, Refused) and outcome.in_doubt:  # by a destination that may be out of order
                return outcome
            if not isinstance(outcome, Retry):
                self._resume(said_at_ms)
                if failed:
                    self._counters.recovered(now_us=self._time.microseconds())
                return outcome
            failed = True
            said_at_ms = self._said_waits(outcome, said_at_ms)
            if self._out_of_time():
                return None
            self._pause(self._within_deadline(backoff.next_ms(outcome.after_ms)))

    def _said_waits(self, outcome: Retry, said_at_ms: int | None) -> int | None:
        """`_say_waits`; when the log said so first, None if it did not [ms]."""
        said = self._say_waits(outcome)
        return self._time.hi_res_clock_ms() if said and said_at_ms is None else said_at_ms

    def _say_waits(self, outcome: Retry) -> bool:
        """Counts a failed try; True if the log says so, which it does once a minute."""
        reason = self._counters.retried(outcome.reason, outcome.detail, now_us=self._time.microseconds())
        count = self._occurrences(f"retry {reason}")
        if count:
            self._log.warning(
                "cannot deliver now, and tries again",
                destination=self._destination,
                reason=words(outcome.reason),
                detail=words(outcome.detail),
                occurrences=count,
            )
        return count > 0

    def _guarded(self, attempt: Callable[[], Outcome]) -> Outcome:
        """The attempt's outcome; an exception that nobody expected is a reason to try again, not to lose a push."""
        try:
            return attempt()
        except CursorRevokedError:
            raise
        except PushLogError as error:
            return Retry(reason="push_log", detail=str(error))
        except Exception as error:  # noqa: BLE001  # whatever a destination raises, the pushes stay in the log
            kind = type(error).__name__
            if count := self._occurrences(f"error {kind}"):
                self._log.exception("the exporter failed", occurrences=count)
            return Retry(reason="error", detail=f"{kind}: {error}")

    def _resume(self, said_at_ms: int | None) -> None:
        """Back to normal; the log says so where it has said that something was wrong."""
        self._counters.enter(PipelineState.RUNNING)
        if said_at_ms is not None:
            self._log.info("delivers again", after_ms=self._time.hi_res_clock_ms() - said_at_ms)

    def _occurrences(self, kind: str) -> int:
        return self._calm.admit(kind, self._time.hi_res_clock_ms())

    def _out_of_time(self) -> bool:
        return self._deadline_ms is not None and self._time.hi_res_clock_ms() >= self._deadline_ms

    def _within_deadline(self, wait_ms: int) -> int:
        if self._deadline_ms is None:
            return wait_ms
        return max(0, min(wait_ms, self._deadline_ms - self._time.hi_res_clock_ms()))

    def _wait(self, wait_ms: int) -> None:
        if self._wake.wait(wait_ms / 1000):
            self._wake.clear()  # a stop cuts one wait short; the tries until its deadline keep their backoff
