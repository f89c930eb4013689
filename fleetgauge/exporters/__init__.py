"""Exporters: deliver pushes from the push log to destinations.

    from fleetgauge.exporters import BatchSettings, Delivered, Exporter, Options, Outcome, Retry, RetrySettings

The names are those that an exporter of your own needs (docs/develop/write-an-exporter.md). They are imported on
first use, so that importing one module of the package stays cheap.
"""

from fleetgauge.base.public_names import public_names, require_full_name

require_full_name(__name__)

__getattr__, __all__ = public_names(
    __name__,
    {
        "base.errors": "FleetgaugeError",
        "exporters.exporter": "BatchSettings Delivered Exporter Outcome Refused RefusedRecord Retry RetrySettings "
        "TooLarge reach_tcp",
        "exporters.labels": "LabelSettings Labeller",
        "exporters.options": "ExporterConfigError Options batch_settings label_settings retry_settings",
        "exporters.protobuf_wire": "MalformedPayloadError",
        "push_log.log": "Batch",
        "telemetry.push_record": "PushRecord",
    },
)
