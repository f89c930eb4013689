"""Client telemetry (KIP-714) as a library: the broker's side, without sockets, threads or a clock of its own.

    from fleetgauge.telemetry import ClientMetricsManager, ClientMetricsSettings, MetricsReporter, RequestContext

`ClientMetricsManager` answers GetTelemetrySubscriptions and admits or refuses PushTelemetry. Reporters receive what it
admits through `ClientTelemetryExporterPlugin`. Every public name is imported from here; the modules stay importable one
by one, which a Spark executor that reads push records relies on: `telemetry.push_record` and `telemetry.catalogue` need
the standard library alone.

Rules of the interface: those of `quotas` (see its docstring). `now_ms` is monotonic time [ms], `received_at` and
everything that ends in `_us` wall time [us since the epoch]; none of the classes may be used by several threads unless
its docstring says so. Events are logged by `logging`, under the modules' names, without any payload; nothing is printed
unless the application configures it.
"""

from fleetgauge.base.public_names import public_names, require_full_name

require_full_name(__name__)

__getattr__, __all__ = public_names(
    __name__,
    {
        "telemetry.subscriptions.known_clients": "SHIPPED guard_rules",
        "base.errors": "ErrorCode InvalidConfigError InvalidRecordError InvalidRequestError TelemetryTooLargeError",
        "telemetry.catalogue.software_version": "SoftwareVersion VersionRange",
        "telemetry.catalogue.standard_metrics": "KnownMetric known_metrics selected telemetry_name",
        "telemetry.codecs": "CompressionType decompressors",
        "telemetry.instances.departed": "DepartedClients",
        "telemetry.instances.instance": "ClientInstance",
        "telemetry.instances.register": "InstanceRegister",
        "telemetry.instances.sender_bounds": "SenderLimits",
        "telemetry.manager": "ClientMetricsManager",
        "telemetry.messages": "GetTelemetrySubscriptionsResult PushRequest",
        "telemetry.plugin": "CONTENT_TYPE ClientTelemetry ClientTelemetryContext ClientTelemetryExporter "
        "ClientTelemetryExporterPlugin ClientTelemetryExporterProvider ClientTelemetryPayload ClientTelemetryReceiver "
        "MetricsContext MetricsReporter RequestContext load_reporter",
        "telemetry.plugin.exporter_plugin": "ExportStats",
        "telemetry.push": "Push",
        "telemetry.push_record": "PushIds PushRecord SCHEMA_VERSION format_instance_id is_push_id parse_instance_id",
        "telemetry.settings": "ClientMetricsSettings",
        "telemetry.subscriptions.client_guard": "ClientGuard GuardAction GuardRule GuardWhen",
        "telemetry.subscriptions.interval_scaling": "IntervalScaling ScaledClient TelemetryIntervalScaling",
        "telemetry.subscriptions.match": "ClientMatchingParam Selector parse_match",
        "telemetry.subscriptions.resources": "EffectiveSubscription Subscription Subscriptions check_subscription "
        "parse_subscription",
        "telemetry.validate": "validate_metrics",
    },
)
