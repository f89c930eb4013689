"""`fleetgauge fleet simulate --push`: plays a simulated fleet through the Kafka protocol, as its clients would push.

Clients keep to the push interval that the peer announces. What a listener knows of a client beside its pushes is that
of this process: one address, no principal, and several clients on a connection.
"""

import asyncio
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.get_telemetry_subscriptions.v0.response import GetTelemetrySubscriptionsResponse

from fleetgauge.base.clock import SystemTime
from fleetgauge.fleet.errors import FleetError
from fleetgauge.telemetry.push_record import PushRecord, parse_instance_id
from fleetgauge.testkit.simulate.link import Link, LinkError, Target
from fleetgauge.testkit.simulate.plan import Plan
from fleetgauge.testkit.simulate.stream import Stream
from fleetgauge.testkit.simulate.world import FAULTY, SOFTWARE

LEAST_CONNECTIONS: Final = sum(len(each) for each in (*SOFTWARE.values(), *FAULTY.values()))
"""One for each version of a client library: a connection names one."""

LONGEST_INTERVAL_S: Final = 300.0
"""Simulated time between two pushes of a client, at most: as much as the simulation remembers [s]."""

NO_ANSWER: Final = "no answer"
NOTHING_ASKED: Final = "no metrics asked for"

_MARGIN_S: Final = 0.05
"""Delay of each push after the first allowed moment, so that none is early [s]."""
_UNDER_WAY: Final = 2_000
_GIVES_UP_AFTER_S: Final = 30.0
_TOLD_EVERY_S: Final = 0.2


@dataclass(slots=True)
class Played:
    """Outcomes of the pushes.

    Attributes:
        outcomes: pushes by the name of the error code that answered them, NO_ANSWER or NOTHING_ASKED.
        took_s: so far [s].
        simulated_s: so far, of the fleet's time [s].
        late_s: how far behind its time a push was sent, at most [s].
        is_over: the whole fleet was played.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    took_s: float = 0.0
    simulated_s: float = 0.0
    late_s: float = 0.0
    is_over: bool = False

    @property
    def accepted(self) -> int:
        """Pushes that were."""
        return self.outcomes["NONE"]

    def __str__(self) -> str:
        rest = ", ".join(f"{count:,} {name}" for name, count in self.outcomes.most_common() if name != "NONE")
        per_s = self.outcomes.total() / max(self.took_s, 0.001)
        late = f"; up to {self.late_s:.1f} s late" if self.late_s >= 1 else ""
        pushes = f"{self.outcomes.total():,} pushes in {self.took_s:,.0f} s ({per_s:,.0f} per second)"
        return f"{pushes}: {self.accepted:,} accepted, {f'refused: {rest}' if rest else 'none refused'}{late}"


@dataclass(slots=True)
class _Instance:
    """A client instance; `not_before` is when it may push again, by the loop's clock [s]."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    link: Link | None = None
    subscription: GetTelemetrySubscriptionsResponse | None = None
    not_before: float = 0.0


class _Links:
    """Connections, so many at most: each for the instances of one version of a client library."""

    def __init__(self, target: Target, most: int) -> None:
        self._target, self._most = target, most
        self._open: dict[tuple[str, str], list[Link]] = {}

    def take(self, record: PushRecord) -> Link:
        """A connection for an instance: a new one as long as there may be more, else the one with the fewest."""
        software = record.client_software_name, record.client_software_version
        every = self._open.setdefault(software, [])
        every[:] = [link for link in every if not link.is_closed]
        reserved = LEAST_CONNECTIONS - sum(1 for links in self._open.values() if links)
        if not every or sum(map(len, self._open.values())) + reserved < self._most:
            every.append(Link(self._target, record.client_id, software))
        link = min(every, key=lambda each: each.instances)
        link.instances += 1
        return link

    def close(self) -> None:
        """All of them."""
        for link in (link for links in self._open.values() for link in links):
            link.close()


class Player:
    """Plays one fleet.

    Args:
        plan: who is in it, and what happens.
        seed: of it.
        target: who gets the pushes.
        speed: how many times as fast as in life.
        connections: at most.
        progress: is called now and then.
    """

    def __init__(
        self,
        plan: Plan,
        seed: int,
        target: Target,
        speed: float,
        connections: int,
        progress: Callable[[Played], None] = lambda _: None,
    ) -> None:
        self._plan, self._seed, self._target, self._speed = plan, seed, target, speed
        self._links = _Links(target, connections)
        self._progress = progress
        self._instances: dict[str, _Instance] = {}
        self._interval_s = 0.0
        self._answered_s = 0.0
        self.played = Played()
        self.begin = datetime.now(UTC)

    def run(self, began: Callable[[datetime], None] = lambda _: None) -> Played:
        """Plays it to its end, or to Ctrl-C.

        Args:
            began: is called with the time at which the simulated time begins.

        Raises:
            FleetError: the peer is not there, takes no telemetry, asks for no metrics, or answers no more.
        """
        with suppress(asyncio.CancelledError):
            asyncio.run(self._play(began))
        return self.played

    async def _play(self, began: Callable[[datetime], None]) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        if threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGINT, task.cancel)
        await self._ask_interval()
        for app in self._plan.world.apps:
            app.interval_s = (self._interval_s + _MARGIN_S) * self._speed
        chunks = _Chunks(self._stream(began), loop)
        limit, running = asyncio.Semaphore(_UNDER_WAY), set()
        start_s = told_s = 0.0
        try:
            while chunk := await chunks.next():
                start_s = start_s or loop.time()
                self._answered_s = self._answered_s or start_s
                for record in chunk:
                    due_s = start_s + record.received_at / 1_000_000 - self.begin.timestamp()
                    if (wait_s := due_s - loop.time()) > 0:
                        await asyncio.sleep(wait_s)
                    await limit.acquire()
                    push = asyncio.create_task(self._push(record))
                    running.add(push)
                    push.add_done_callback(running.discard)
                    push.add_done_callback(lambda _: limit.release())
                    now_s = loop.time()
                    played = self.played
                    played.late_s = max(played.late_s, now_s - due_s)
                    played.took_s, played.simulated_s = now_s - start_s, (due_s - start_s) * self._speed
                    if now_s - told_s > _TOLD_EVERY_S:
                        told_s = now_s
                        self._progress(played)
                        if now_s - self._answered_s > max(_GIVES_UP_AFTER_S, 2 * self._interval_s):
                            raise FleetError(f"{self._target} answers no more: {played}")
            await asyncio.gather(*running)
            self.played.took_s = loop.time() - start_s
            self.played.is_over = True
        finally:
            chunks.stop()
            for push in running:
                push.cancel()
            self._links.close()

    def _stream(self, began: Callable[[datetime], None]) -> Iterator[list[PushRecord]]:
        """The chunks, of a time that begins when the first of them is asked for."""
        self.begin = datetime.fromtimestamp(SystemTime().milliseconds() / 1000, UTC)
        began(self.begin)
        yield from Stream(self._plan, self._seed, begin=self.begin, speed=self._speed).chunks()

    async def _ask_interval(self) -> None:
        """Asks for the push interval, as the fleet's first client."""
        app = self._plan.world.apps[0]
        link = Link(self._target, app.name, (app.software.name, app.software.version))
        try:
            subscription = await link.subscribe(app.name, uuid.uuid4())
        except LinkError as error:
            raise FleetError(f"{self._target} {error}") from error
        finally:
            link.close()
        if subscription.error_code is not ErrorCode.none:
            raise FleetError(f"{self._target} refuses a subscription with {_named(subscription.error_code)}")
        if not subscription.requested_metrics:
            raise FleetError(
                f"{self._target} asks the client {app.name} for no metrics: subscribe to them, in Fleetgauge by "
                '[client-metrics.all] metrics = "*" interval.ms = 60000, in Kafka by kafka-client-metrics.sh --alter '
                "--name all --metrics '*' --interval 60000"
            )
        self._interval_s = subscription.push_interval.total_seconds()
        simulated_s, most_ms = self._interval_s * self._speed, LONGEST_INTERVAL_S / self._speed * 1000
        if simulated_s > LONGEST_INTERVAL_S:
            raise FleetError(
                f"{self._target} asks for a push every {self._interval_s:g} s, which at --speed {self._speed:g} are "
                f"{simulated_s:,.0f} s of the fleet's time, and {LONGEST_INTERVAL_S:g} are the most: give its "
                f"subscription interval.ms = {most_ms:.0f} or less, or a lower --speed"
            )

    async def _push(self, record: PushRecord) -> None:
        instance = self._instances.setdefault(record.client_instance_id, _Instance())
        async with instance.lock:
            try:
                outcome = await self._outcome(instance, record)
            except LinkError:
                outcome, instance.link, instance.subscription = NO_ANSWER, None, None
            else:
                self._answered_s = asyncio.get_running_loop().time()
        self.played.outcomes[outcome] += 1
        if record.terminating:
            self._instances.pop(record.client_instance_id, None)
            if instance.link is not None:
                instance.link.instances -= 1

    async def _outcome(self, instance: _Instance, record: PushRecord) -> str:
        """Asks for the subscription where none is known, or not any more, and pushes."""
        loop, instance_id = asyncio.get_running_loop(), parse_instance_id(record.client_instance_id)
        if instance.link is None or instance.link.is_closed:
            instance.link, instance.subscription = self._links.take(record), None
        if (wait_s := instance.not_before - loop.time()) > 0 and not record.terminating:
            await asyncio.sleep(wait_s)
        code = ErrorCode.unknown_subscription_id
        for _ in range(2):
            if instance.subscription is None:
                subscription = await instance.link.subscribe(record.client_id, instance_id)
                if subscription.error_code is not ErrorCode.none:
                    return _named(subscription.error_code)
                if not subscription.requested_metrics:
                    return NOTHING_ASKED
                instance.subscription = subscription
            answer = await instance.link.push(
                record.client_id, instance_id, instance.subscription, record.metrics, terminating=record.terminating
            )
            instance.not_before = loop.time() + instance.subscription.push_interval.total_seconds()
            code = answer.error_code
            if code is not ErrorCode.unknown_subscription_id:
                break
            instance.subscription = None
        return _named(code)


class _Chunks:
    """Chunks of records, of which a thread makes the next one meanwhile."""

    def __init__(self, chunks: Iterator[list[PushRecord]], loop: asyncio.AbstractEventLoop) -> None:
        self._queue: asyncio.Queue[list[PushRecord] | BaseException | None] = asyncio.Queue()
        self._room = threading.Semaphore(2)
        self._is_stopped = False
        threading.Thread(target=self._fill, args=(chunks, loop), daemon=True).start()

    async def next(self) -> list[PushRecord] | None:
        """The next one that has a record; None at the end."""
        while True:
            chunk = await self._queue.get()
            self._room.release()
            if isinstance(chunk, BaseException):
                raise chunk
            if chunk is None or chunk:
                return chunk

    def stop(self) -> None:
        """Makes no more."""
        self._is_stopped = True
        self._room.release()

    def _fill(self, chunks: Iterator[list[PushRecord]], loop: asyncio.AbstractEventLoop) -> None:
        def put(chunk: list[PushRecord] | BaseException | None) -> None:
            if not self._is_stopped:
                loop.call_soon_threadsafe(self._queue.put_nowait, chunk)

        try:
            while self._room.acquire() and not self._is_stopped:
                chunk = next(chunks, None)
                put(chunk)
                if chunk is None:
                    return
        except Exception as error:  # noqa: BLE001  # raised where the chunk was waited for
            put(error)


def _named(code: ErrorCode) -> str:
    """As Kafka's documentation has it."""
    return code.name.upper()
