"""Plays a trace on both sides at once, step by step, and notes what each answered and when.

Nothing is judged here but time: whether every step kept clear of its interval's boundaries, on the client's clock
before it sent and after it was answered. The server's own clock reads between the two.
"""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from support.clients.raw_client import PushAnswer, Subscription
from support.differential.pair import SIDES, Content, Contents, Wire
from support.differential.payloads import payload
from support.differential.traces import (
    CONNECTIONS,
    Edit,
    Get,
    GetNull,
    GetReserved,
    Pause,
    Push,
    PushNull,
    PushReserved,
    Reconnect,
    Step,
    Trace,
    Wait,
)
from support.waiting import pause_async

WITHIN_INTERVALS = 0.7
BEYOND_INTERVALS = 1.3
EXPIRY_S = 60.0
"""Both sides forget a client whose interval is short after so long."""

CLOSED = "closed"
"""Stands for an error code: the connection was closed instead of an answer."""

_RECONNECT_INTERVALS = 0.2
_RECONNECT_MAX_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one side answered. `instance_id` and `content` are None for a push; `content` is None with an error."""

    error: int | str
    throttle_time_ms: int = 0
    instance_id: uuid.UUID | None = None
    content: Content | None = None
    blank: bool = True
    """With an error: nothing else is filled in but the id."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A step that was played: `asked` and `answers` by side.

    `slot` is where `given` pointed, and `right_id` says that a push named the subscription id of its client.
    """

    step: Step
    slot: str = ""
    asked: Mapping[str, uuid.UUID] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    reference: Contents = field(default_factory=dict)
    right_id: bool = False


class Playing:
    """One trace on its way. `exchanges` fills; `inconclusive` says why the times do not allow a judgement."""

    def __init__(self, trace: Trace, ports: Mapping[str, int], contents: Mapping[str, Contents]) -> None:
        self.trace = trace
        self.exchanges: list[Exchange] = []
        self.inconclusive = ""
        self._ports = ports
        self._contents = contents
        self._reference = self._previous = contents[trace.group.name]
        own, other = uuid.uuid4(), uuid.uuid4()
        self._ids = {side: {"own": own, "other": other} for side in SIDES}
        self._given = "own"
        self._wires: dict[tuple[str, int], Wire] = {}
        self._interval_s = trace.group.interval_ms / 1000
        self._burst = dict.fromkeys(SIDES, (0.0, 0.0))
        self._now_s = asyncio.get_running_loop().time
        self._began_s = self._now_s()

    async def play(self, steps: tuple[Step, ...]) -> None:
        """Plays `steps` next."""
        for step in steps:
            self.exchanges.append(await self._play(step))
        if self.trace.group.waits and self._now_s() - self._began_s > EXPIRY_S * WITHIN_INTERVALS:
            self.inconclusive = "it took so long that clients may have expired"

    def edited(self, number: int) -> None:
        """The edit of that number was made: the subscription ids before it are old from here on."""
        self.exchanges.append(Exchange(step=Edit(number=number)))
        self._previous = self._reference
        self._reference = self._contents[self.trace.group.name]

    def end(self) -> None:
        """Closes every connection."""
        for wire in self._wires.values():
            wire.abort()

    async def open(self) -> None:
        """Opens the connections."""
        for number in range(CONNECTIONS):
            for side in SIDES:
                self._wires[side, number] = await self._connected(side)

    async def _connected(self, side: str) -> Wire:
        group = self.trace.group
        wire = Wire(self._ports[side], f"{group.name}-{self.trace.index}", group.software)
        await wire.open()
        return wire

    async def _play(self, step: Step) -> Exchange:
        match step:
            case Wait(intervals=intervals):
                await self._wait(intervals)
            case Pause(intervals=intervals):
                await pause_async(min(intervals * self._interval_s, _RECONNECT_MAX_S), "the trace has it")
            case Reconnect(connection=connection):
                await self._reconnect(connection)
            case Edit():
                raise AssertionError("an edit is made by who plays the traces")
            case _:
                return await self._ask_both(step)
        return Exchange(step=step)

    async def _wait(self, intervals: float) -> None:
        answered = max(last for _, last in self._burst.values())
        left_s = answered + intervals * self._interval_s - self._now_s()
        await pause_async(max(0.0, left_s), "the trace waits beyond an interval")
        self._burst = {side: (0.0, last) for side, (_, last) in self._burst.items()}

    async def _reconnect(self, connection: int) -> None:
        for side in SIDES:
            await self._wires[side, connection].close()
            self._wires[side, connection] = await self._connected(side)
        await pause_async(
            min(_RECONNECT_INTERVALS * self._interval_s, _RECONNECT_MAX_S), "both sides see the end of a connection"
        )

    async def _ask_both(self, step: Step) -> Exchange:
        slot = self._slot(step)
        asked = {side: self._ids[side].get(slot, uuid.UUID(int=getattr(step, "number", 1))) for side in SIDES}
        if isinstance(step, PushNull):
            asked = dict.fromkeys(SIDES, uuid.uuid4())
        kafka, ours = await asyncio.gather(*(self._timed(side, step, asked[side]) for side in SIDES))
        answers = {"kafka": kafka, "ours": ours}
        if isinstance(step, GetNull):
            slot = self._bind(answers)
        return Exchange(
            step=step,
            slot=slot,
            asked=asked,
            answers=answers,
            reference=self._reference,
            right_id=isinstance(step, Push) and self._names_right_id(step),
        )

    def _names_right_id(self, step: Push) -> bool:
        """A bystander's id before an edit is still its id."""
        unchanged = self._previous == self._reference
        return step.subscription == "right" or (step.subscription == "old" and unchanged)

    def _slot(self, step: Step) -> str:
        slot = step.slot if isinstance(step, Get | Push) else ""
        return self._given if slot == "given" else slot

    def _bind(self, answers: Mapping[str, Answer]) -> str:
        """What a null Get was answered: a new id for both, which is `given` from here on, or one that we know."""
        ours = answers["ours"].instance_id
        known = [slot for slot, instance_id in self._ids["ours"].items() if instance_id == ours]
        if known:
            return known[0]
        slot = f"given-{len(self._ids['ours']) - 1}"
        for side in SIDES:
            instance_id = answers[side].instance_id
            assert instance_id is not None
            self._ids[side][slot] = instance_id
        self._given = slot
        return slot

    async def _timed(self, side: str, step: Step, instance_id: uuid.UUID) -> Answer:
        sent = self._now_s()
        answer = await self._ask(side, step, instance_id)
        answered = self._now_s()
        first, last = self._burst[side]
        if not first:
            if last and sent - last < BEYOND_INTERVALS * self._interval_s:
                self.inconclusive = "a wait was too short"
            first = sent
        elif answered - first > WITHIN_INTERVALS * self._interval_s:
            self.inconclusive = f"a burst took too long at {type(step).__name__}"
        self._burst[side] = (first, answered)
        return answer

    async def _ask(self, side: str, step: Step, instance_id: uuid.UUID) -> Answer:
        match step:
            case Get(connection=connection):
                return _of_get(await self._wires[side, connection].get(instance_id))
            case GetNull(connection=connection):
                return _of_get(await self._wires[side, connection].get(None))
            case Push(connection=connection):
                return await self._push(side, step, instance_id)
            case PushReserved(connection=connection):
                wire = self._wires[side, connection]
                return _of_push(await wire.push(instance_id, 0, b"", compression_type=0, terminating=False))
            case GetReserved() | PushNull():
                return await self._ask_alone(side, step, instance_id)
        raise AssertionError(step)

    async def _push(self, side: str, step: Push, instance_id: uuid.UUID) -> Answer:
        what = payload(step.payload)
        return _of_push(
            await self._wires[side, step.connection].push(
                instance_id,
                self._subscription_id(side, step, instance_id),
                what.data,
                compression_type=what.compression_type,
                terminating=step.terminating,
            )
        )

    def _subscription_id(self, side: str, step: Push, instance_id: uuid.UUID) -> int:
        current = self._reference[side]
        if step.subscription == "old":
            return self._previous[side].subscription_id(instance_id)
        if step.subscription == "another's":
            return current.subscription_id(uuid.UUID(int=instance_id.int ^ 0x714))
        right = current.subscription_id(instance_id)
        return right if step.subscription == "right" else right ^ 1

    async def _ask_alone(self, side: str, step: Step, instance_id: uuid.UUID) -> Answer:
        """On a connection of its own, so that nothing that it leaves behind meets the others."""
        wire = await self._connected(side)
        try:
            if isinstance(step, GetReserved):
                return _of_get(await wire.get(instance_id))
            right = self._reference[side].subscription_id(instance_id)
            return _of_push(await wire.push(instance_id, right, None, compression_type=0, terminating=False))
        except ConnectionError:
            return Answer(error=CLOSED)
        finally:
            wire.abort()


def _of_get(answer: Subscription) -> Answer:
    content = Content.of(answer)
    nothing = not (
        answer.subscription_id
        or answer.accepted_compression_types
        or answer.push_interval_ms
        or answer.telemetry_max_bytes
        or answer.delta_temporality
        or answer.requested_metrics
    )
    return Answer(
        error=answer.error_code,
        throttle_time_ms=answer.throttle_time_ms,
        instance_id=answer.client_instance_id,
        content=None if answer.error_code else content,
        blank=nothing or not answer.error_code,
    )


def _of_push(answer: PushAnswer) -> Answer:
    return Answer(error=answer.error_code, throttle_time_ms=answer.throttle_time_ms)
