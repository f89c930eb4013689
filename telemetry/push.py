"""A push that passed every check, on its way into the push log and to its answer."""

from collections.abc import Awaitable
from typing import Any

from telemetry.instances.gate import Turn
from telemetry.instances.instance import ClientInstance
from telemetry.push_record import PushRecord


class Push:
    """An accepted push. The push log takes it and hands it back with the outcome; then it is answered.

    Attributes:
        instance: the client instance that sent it.
        turn: what the gate needs to take it back.
        taken_at_ms: when it arrived [ms, monotonic].
        row: the fields of its `PushRecord`, without `metrics`.
        metrics: the payload, decompressed; empty for a heartbeat.
        encoded: the payload as received.
        awaitables: what reporters have left to do; they raise nothing, and no answer waits for them.
        reply_to: the connection that is answered; opaque to this room.
        slot: its place in the order of that connection's responses.
        correlation_id: of the request.
        throttle_time_ms: how long the request quota holds the client [ms].
        is_timed: its time counts for a request quota.
        is_answered: set by a push log that may answer before its commit ends.
    """

    __slots__ = (
        "awaitables",
        "correlation_id",
        "encoded",
        "instance",
        "is_answered",
        "is_timed",
        "metrics",
        "reply_to",
        "row",
        "slot",
        "taken_at_ms",
        "throttle_time_ms",
        "turn",
    )

    def __init__(
        self,
        instance: ClientInstance,
        turn: Turn,
        taken_at_ms: int,
        row: tuple[object, ...],
        metrics: bytes,
        encoded: bytes,
    ) -> None:
        self.instance = instance
        self.turn: Turn | None = turn
        self.taken_at_ms = taken_at_ms
        self.row = row
        self.metrics = metrics
        self.encoded = encoded
        self.awaitables: tuple[Awaitable[None], ...] = ()
        self.reply_to: Any = None
        self.slot = 0
        self.correlation_id = 0
        self.throttle_time_ms = 0
        self.is_timed = False
        self.is_answered = False

    @property
    def record(self) -> PushRecord:
        """The push record, made anew at each call."""
        return PushRecord._make((*self.row, self.metrics))

    @property
    def size_bytes(self) -> int:
        """What it holds of payloads [B]."""
        return len(self.metrics) + len(self.encoded)
