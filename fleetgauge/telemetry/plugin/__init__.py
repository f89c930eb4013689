"""The plugin interface: what a reporter implements, its loading, and the class that calls it."""

from fleetgauge.telemetry.plugin.api import (
    CONTENT_TYPE,
    ClientTelemetry,
    ClientTelemetryContext,
    ClientTelemetryExporter,
    ClientTelemetryExporterProvider,
    ClientTelemetryPayload,
    ClientTelemetryReceiver,
    MetricsContext,
    MetricsReporter,
    RequestContext,
)
from fleetgauge.telemetry.plugin.exporter_plugin import ClientTelemetryExporterPlugin, Export
from fleetgauge.telemetry.plugin.loading import load_reporter

__all__ = [
    "CONTENT_TYPE",
    "ClientTelemetry",
    "ClientTelemetryContext",
    "ClientTelemetryExporter",
    "ClientTelemetryExporterPlugin",
    "ClientTelemetryExporterProvider",
    "ClientTelemetryPayload",
    "ClientTelemetryReceiver",
    "Export",
    "MetricsContext",
    "MetricsReporter",
    "RequestContext",
    "load_reporter",
]
