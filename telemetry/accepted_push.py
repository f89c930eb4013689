"""A push that passed every check and waits for the push log."""

from collections.abc import Awaitable

from base.errors import ErrorCode
from telemetry.client_metrics import ClientMetrics
from telemetry.instances.gate import Turn
from telemetry.instances.instance import ClientInstance
from telemetry.push_record import PushRecord
from telemetry.refusal import NOT_LOGGED, RefusalCounts


class AcceptedPush:
    """An accepted push. Whoever logs it calls `logged` or `not_logged`, once; further calls do nothing.

    Attributes:
        record: what is to be logged.
        encoded: the payload as it was received, still compressed; empty for a heartbeat.
        awaitables: what receivers have left to do; they raise nothing, and no answer waits for them.
    """

    __slots__ = ("_instance", "_refusals", "_stats", "_turn", "awaitables", "encoded", "record")

    def __init__(
        self,
        record: PushRecord,
        encoded: bytes,
        awaitables: tuple[Awaitable[None], ...],
        instance: ClientInstance,
        turn: Turn,
        stats: ClientMetrics,
        refusals: RefusalCounts,
    ) -> None:
        self.record = record
        self.encoded = encoded
        self.awaitables = awaitables
        self._instance = instance
        self._turn: Turn | None = turn
        self._stats = stats
        self._refusals = refusals

    def logged(self, now_ms: int) -> None:
        """It is in the push log at `now_ms` [ms, monotonic]; the client is to be answered NONE."""
        turn, self._turn = self._turn, None
        if turn is not None:
            instance = self._instance
            instance.gate.last_known_error = ErrorCode.NONE
            instance.pushes += 1
            instance.push_bytes += len(self.encoded)
            instance.last_push_ms = turn.taken_at_ms
            self._stats.record_plugin_export(instance.metrics, float(now_ms - turn.taken_at_ms), now_ms)

    def not_logged(self, now_ms: int) -> None:
        """The push log could not take it; the client is to be answered THROTTLING_QUOTA_EXCEEDED.

        The fault is ours: the push after this one is due at once, and a terminating one may be sent again.
        """
        turn, self._turn = self._turn, None
        if turn is not None:
            instance = self._instance
            instance.gate.give_back(turn)
            instance.note_refusal(NOT_LOGGED, now_ms)
            self._refusals.add(NOT_LOGGED)
            self._stats.record_plugin_error(instance.metrics, now_ms)
