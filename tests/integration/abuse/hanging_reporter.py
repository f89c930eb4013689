"""A reporter whose exports never end: the worst that an asynchronous one can do."""

import asyncio
from collections.abc import Awaitable, Mapping

from fleetgauge.telemetry.plugin import ClientTelemetryPayload, MetricsReporter, RequestContext


class HangingReporter(MetricsReporter):
    """Waits for what never comes."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Needs nothing."""

    def client_receiver(self) -> "HangingReporter":
        """Itself."""
        return self

    def export_metrics(self, context: RequestContext, payload: ClientTelemetryPayload) -> Awaitable[None]:
        """Holds the payload as long as it is let."""
        return self._hang(payload)

    async def _hang(self, payload: ClientTelemetryPayload) -> None:
        await asyncio.Event().wait()
