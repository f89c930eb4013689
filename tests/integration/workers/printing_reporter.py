"""A reporter that prints, as a careless one does: to where a worker tells its parent what it has to say."""

from collections.abc import Mapping

from fleetgauge.telemetry.plugin import ClientTelemetryPayload, MetricsReporter, RequestContext


class PrintingReporter(MetricsReporter):
    """Prints what could be taken for a word of the worker's, and for none."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Prints of its worker."""
        print(f'7\n{{"problem": "configured for {configs["log.dirs"]}"}}', flush=True)

    def client_receiver(self) -> "PrintingReporter":
        """Itself."""
        return self

    def export_metrics(self, context: RequestContext, payload: ClientTelemetryPayload) -> None:
        """Prints of a push."""
        print(f"[]\nprinted: a push of {context.client_id}", flush=True)
