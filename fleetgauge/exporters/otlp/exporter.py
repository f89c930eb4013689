"""Exports labelled pushes over OTLP as encoded bytes.

Nothing is parsed and encoded again, unless `temporality` asks for it (see `conversion`): the concatenated results of
`labels` are a complete request. Source: OTLP specification.
"""

import importlib.metadata
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.library_log import get_logger
from fleetgauge.exporters.exporter import Delivered, Outcome, Retry, TooLarge, converted, reach_tcp
from fleetgauge.exporters.labels import Labeller
from fleetgauge.exporters.otlp.endpoint import HTTP_PROTOBUF
from fleetgauge.exporters.otlp.settings import AS_SENT, OtlpSettings, otlp_options, otlp_settings
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError
from fleetgauge.exporters.tls_files import TlsFilesError
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

if TYPE_CHECKING:
    from fleetgauge.exporters.otlp.conversion import Conversion

log = get_logger(__name__)

_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables that name a proxy for gRPC."""


class OtlpTransport(Protocol):
    """Sends requests to one receiver. `open` and `send` come from one thread, `close` from any."""

    def open(self) -> None:
        """Reads the TLS files; the first request connects.

        Raises:
            TlsFilesError: a TLS file cannot be used.
        """
        ...

    def send(self, request: bytes) -> Outcome:
        """Sends an encoded `ExportMetricsServiceRequest`, and returns its outcome. Blocks for a bounded time."""
        ...

    def close(self) -> None:
        """Ends a running `send` and the connection; may be called twice."""
        ...


def make_transport(settings: OtlpSettings) -> OtlpTransport:
    """The transport of `settings.protocol`."""
    user_agent = f"fleetgauge/{importlib.metadata.version('fleetgauge')}"
    if settings.protocol == HTTP_PROTOBUF:
        from fleetgauge.exporters.otlp.http_transport import HttpTransport  # urllib3

        return HttpTransport(settings, user_agent)
    from fleetgauge.exporters.otlp.grpc_transport import GrpcTransport  # gRPC: 27 MiB

    return GrpcTransport(settings, user_agent)


def make_conversion(settings: OtlpSettings) -> "Conversion | None":
    """The conversion to `settings.temporality`; None if pushes are sent as they came."""
    if settings.temporality == AS_SENT:
        return None
    from fleetgauge.exporters.otlp.conversion import Conversion  # protobuf's classes

    return Conversion(settings.temporality, settings.state_file, SystemTime())


class OtlpExporter:
    """Delivers to one OTLP receiver, one call at a time."""

    def __init__(self, name: str, settings: OtlpSettings) -> None:
        self.name = name
        self.settings = settings
        self.batch = settings.batch
        self.retry = settings.retry
        self._labeller = Labeller(settings.labels)
        self._conversion = make_conversion(settings)

    @cached_property
    def _transport(self) -> OtlpTransport:
        """Created by `start`: processes that only check the configuration create exporters, too."""
        return make_transport(self.settings)

    @property
    def destination(self) -> str:
        """The receiver's URL."""
        return str(self.settings.endpoint)

    def reach(self) -> Retry | None:
        """Checks that the receiver's port accepts connections. See `Exporter`."""
        if any(os.environ.get(name) for name in _PROXIES):  # gRPC may connect to the proxy instead
            return None
        return reach_tcp(self.settings.endpoint.host.strip("[]"), self.settings.endpoint.port)

    def start(self) -> None:
        """Loads the state of conversions, and logs a TLS file that cannot be used; the first export connects.

        Raises:
            StateError: the state cannot be read.
        """
        if self._conversion is not None:
            self._conversion.start()
        try:
            self._transport.open()
        except TlsFilesError as error:  # each export tries again: the file may be corrected meanwhile
            log.warning("otlp.tls_file_unusable", exporter=self.name, problem=str(error))

    def close(self) -> None:
        """Ends a running call and the connection; may be called twice."""
        self._transport.close()
        if self._conversion is not None:
            self._conversion.close()

    def export(self, batch: Batch) -> Outcome:
        """Sends the batch in one call; a batch of heartbeats alone needs none."""
        if self._conversion is not None:
            return self._conversion.deliver(batch.records, self._send)
        return self._send(batch.records)

    def _send(self, records: Sequence[PushRecord]) -> Outcome:
        payloads, refused = converted(records, self._labeller.labelled, MalformedPayloadError)
        size = sum(map(len, payloads))
        if size > self.settings.max_request_bytes and len(records) > 1:
            return TooLarge(reason="max_request_bytes", detail=f"{size} bytes after labelling")
        if not any(payloads):
            return Delivered(refused=refused)
        outcome = self._transport.send(b"".join(payloads))
        if isinstance(outcome, Delivered):
            return Delivered(refused=refused, rejected=outcome.rejected, detail=outcome.detail)
        return outcome


def otlp_exporter(name: str, values: Mapping[str, object], environment: Mapping[str, str] = os.environ) -> OtlpExporter:
    """Makes an exporter from the keys of `[exporters.<name>]`, which `OtlpSettings` lists.

    Args:
        name: the exporter's name.
        values: the keys, which take precedence over the variables.
        environment: has the standard `OTEL_EXPORTER_OTLP_*` variables.

    Raises:
        ExporterConfigError: a key is unknown, or a value is not allowed.
    """
    return OtlpExporter(name, otlp_settings(otlp_options(name, values, environment)))
