"""Hands every accepted push to the receivers of the registered reporters, each kept from disturbing the others."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.telemetry.plugin.api import (
    ClientTelemetry,
    ClientTelemetryContext,
    ClientTelemetryExporterProvider,
    ClientTelemetryPayload,
    MetricsReporter,
    RequestContext,
)

log = get_logger(__name__)

ERROR_LOG_INTERVAL_MS: Final = 60_000
"""Time between two log lines about a failing receiver [ms]; every failure is counted."""

MAX_PENDING_EXPORTS: Final = 10_000
MAX_PENDING_BYTES: Final = 64 << 20
"""Maximum of unfinished exports of one reporter, in pushes and decompressed bytes; beyond it, further pushes are
skipped.
"""

Export = Callable[[RequestContext, ClientTelemetryPayload, int], Awaitable[None] | None]
"""A receiver as one function of sender, payload, and the push interval in force [ms]."""

Isolate = Callable[[str, Export], Export]
"""Makes of a receiver that could block, with its reporter's name, one that cannot."""


class ExportStats(Protocol):
    """Where exports are counted; `telemetry.instances.client_metrics.ClientMetrics` is one."""

    def record_plugin_export(self, own: Any, duration_ms: float, now_ms: int) -> None:
        """Counts an export and its duration [ms]; `own` are the instance's metrics, if it has any."""

    def record_plugin_error(self, own: Any, now_ms: int) -> None:
        """An export failed."""


class _BehindError(Exception):
    """A reporter has too many unfinished exports; the push is skipped."""


class _Registered:
    """A reporter that receives telemetry."""

    __slots__ = ("errors", "export", "limiter", "pending", "pending_bytes", "reporter")

    def __init__(self, reporter: MetricsReporter, export: Export) -> None:
        self.reporter = reporter
        self.export = export
        self.errors = 0
        self.pending = 0
        self.pending_bytes = 0
        self.limiter = LogLimiter(ERROR_LOG_INTERVAL_MS)

    @property
    def name(self) -> str:
        return type(self.reporter).__qualname__

    @property
    def is_behind(self) -> bool:
        return self.pending >= MAX_PENDING_EXPORTS or self.pending_bytes >= MAX_PENDING_BYTES


class ClientTelemetryExporterPlugin:
    """Kafka's `ClientTelemetryExporterPlugin`: the receivers of all registered reporters behind one call.

    Every receiver is passed every push. Its exceptions are counted, logged at most once a minute per receiver, and
    reach neither the client nor the next receiver. A receiver with too many unfinished exports is skipped until some
    finish, which is counted and logged in the same way. A removed reporter is not called again.

    Attributes:
        is_empty: True if no reporter receives telemetry.
    """

    def __init__(self, time: Time | None = None, isolate: Isolate | None = None) -> None:
        """Starts without receivers; `time` measures how long exports take.

        `isolate` wraps each receiver, except coroutine functions, since calling one runs nothing yet.
        """
        self._time: Time = SystemTime() if time is None else time
        self._isolate = isolate
        self._registered: tuple[_Registered, ...] = ()
        self.is_empty = True
        self._stats: ExportStats | None = None

    def attach(self, stats: ExportStats) -> None:
        """Sets the counters of exports and failures."""
        self._stats = stats

    def add(self, reporter: MetricsReporter) -> bool:
        """Registers a reporter; True if it receives telemetry through one of Kafka's interfaces.

        Exceptions of the reporter's `client_receiver` or `client_telemetry_exporter` propagate to the caller.
        """
        export, could_block = _export_of(reporter)
        if export is None:
            return False
        if could_block and self._isolate is not None:
            export = self._isolate(type(reporter).__qualname__, export)
        self._registered = (*self._registered, _Registered(reporter, export))
        self.is_empty = False
        return True

    def remove(self, reporter: MetricsReporter) -> None:
        """Unregisters a reporter; an unknown one is ignored."""
        self._registered = tuple(each for each in self._registered if each.reporter is not reporter)
        self.is_empty = not self._registered

    def errors(self) -> dict[str, int]:
        """Returns failed exports by the name of the reporter's class, for `fleetgauge status`."""
        counts: dict[str, int] = {}
        for each in self._registered:
            counts[each.name] = counts.get(each.name, 0) + each.errors
        return counts

    def export_metrics(
        self,
        context: RequestContext,
        payload: ClientTelemetryPayload,
        push_interval_ms: int,
        own: Any = None,
    ) -> tuple[Awaitable[None], ...]:
        """Calls every receiver, and returns the awaitables of unfinished exports. Raises nothing, nor do the
        awaitables.

        Args:
            context: the sender.
            payload: of the push.
            push_interval_ms: the interval in force for the client [ms].
            own: the metrics of the client's instance, if it has any.
        """
        pending: list[Awaitable[None]] = []
        for registered in self._registered:
            if registered.is_behind:
                self._failed(registered, _BehindError(f"{registered.pending} exports of it are unfinished"), own)
                continue
            started_ns = self._time.nanoseconds()
            try:
                result = registered.export(context, payload, push_interval_ms)
            except Exception as error:  # noqa: BLE001 - a receiver's fault of any kind must not mute a client
                self._failed(registered, error, own)
                continue
            if result is None:
                self._exported(started_ns, own)
            else:
                registered.pending += 1
                registered.pending_bytes += len(payload.data)
                pending.append(self._finish(registered, result, started_ns, len(payload.data), own))
        return tuple(pending)

    async def _finish(
        self,
        registered: _Registered,
        awaitable: Awaitable[None],
        started_ns: int,
        payload_bytes: int,
        own: Any,
    ) -> None:
        try:
            await awaitable
        except Exception as error:  # noqa: BLE001 - see export_metrics
            self._failed(registered, error, own)
        except BaseException as cancellation:
            self._failed(registered, cancellation, own)
            raise
        else:
            self._exported(started_ns, own)
        finally:
            registered.pending -= 1
            registered.pending_bytes -= payload_bytes

    def _exported(self, started_ns: int, own: Any) -> None:
        if self._stats is not None:
            now_ns = self._time.nanoseconds()
            self._stats.record_plugin_export(own, (now_ns - started_ns) / 1e6, now_ns // 1_000_000)

    def _failed(self, registered: _Registered, error: BaseException, own: Any) -> None:
        registered.errors += 1
        now_ms = self._time.hi_res_clock_ms()
        if self._stats is not None:
            self._stats.record_plugin_error(own, now_ms)
        if registered.limiter.admit("failed", now_ms):
            traced = error if error.__traceback__ is not None and isinstance(error, Exception) else None
            # Private, since a reporter's error may quote the payload that it was given.
            log.bind_private(reason=repr(error), exc_info=traced).warning(
                "telemetry.reporter_failed",
                message="clients get their responses all the same",
                reporter=registered.name,
                errors=registered.errors,
            )


def _export_of(reporter: MetricsReporter) -> tuple[Export | None, bool]:
    """The reporter's receiver as one function, None if it has none; and whether calling it could block."""
    if isinstance(reporter, ClientTelemetryExporterProvider):
        exporter = reporter.client_telemetry_exporter()
        if exporter is None:
            return None, False

        def export(
            context: RequestContext, payload: ClientTelemetryPayload, interval_ms: int
        ) -> Awaitable[None] | None:
            push = ClientTelemetryContext(push_interval_ms=interval_ms, authorizable_request_context=context)
            return exporter.export_metrics(push, payload)

        return export, not inspect.iscoroutinefunction(exporter.export_metrics)
    if isinstance(reporter, ClientTelemetry):
        receiver = reporter.client_receiver()
        if receiver is None:
            return None, False
        could_block = not inspect.iscoroutinefunction(receiver.export_metrics)
        return lambda context, payload, _interval_ms: receiver.export_metrics(context, payload), could_block
    return None, False
