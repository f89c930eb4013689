"""OTLP over gRPC: labelled pushes, joined and sent as raw bytes (DESIGN, "Exporters").

Nothing is parsed and serialised again: `labels` makes bytes that are a whole request when put one after the other.
Source: OTLP specification, "OTLP/gRPC".
"""

import importlib.metadata
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from exporters.common_options import batch_settings, label_settings, retry_settings
from exporters.labels import Labeller, LabelSettings
from exporters.options import Options
from exporters.otlp_channel import DEFAULT_ENDPOINT, OtlpEndpoint, TlsFiles, open_channel
from exporters.otlp_status import failure, success
from exporters.outcome import BatchSettings, Delivered, Outcome, RefusedRecord, Retry, TooLarge
from exporters.protobuf_wire import MalformedPayloadError
from exporters.push_log.log import Batch
from exporters.retry import RetrySettings

EXPORT_METHOD: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
COMPRESSIONS: Final = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}

_HEADER_NAME = re.compile(r"[0-9a-z_.-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")

_Export = Callable[..., tuple[bytes, grpc.Call]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """An `otlp` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        endpoint: `http://host:4317`, `https://host:4317` (TLS) or `host:4317` (key `endpoint`).
        headers: sent with every call, names in lower case (key `headers`).
        timeout_ms: how long one call may take (key `timeout.ms`) [ms].
        compression: `none` or `gzip`, which costs twelve times the CPU (key `compression`).
        max_request_bytes: batches that are longer once labelled are cut (key `max.request.bytes`) [B]. The collector's
            own limit is 4 MiB by default.
        tls: keys `tls.ca.file`, `tls.cert.file`, `tls.key.file`.
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`; with 3 s at most, delivery resumes within 5 s.
        labels: keys `labels`, `static.labels`, `namespace`, `label.max.bytes`.
    """

    endpoint: OtlpEndpoint = DEFAULT_ENDPOINT
    headers: tuple[tuple[str, str], ...] = ()
    timeout_ms: int = 10_000
    compression: str = "none"
    max_request_bytes: int = 1_048_576
    tls: TlsFiles = field(default_factory=TlsFiles)
    batch: BatchSettings = field(
        default_factory=lambda: BatchSettings(max_bytes=786_432, max_records=5_000, linger_ms=200)
    )
    retry: RetrySettings = field(default_factory=lambda: RetrySettings(backoff_max_ms=3_000))
    labels: LabelSettings = field(default_factory=LabelSettings)


class OtlpExporter:
    """Delivers to one OTLP/gRPC receiver, one call at a time."""

    def __init__(self, name: str, settings: OtlpSettings) -> None:
        self.name = name
        self.settings = settings
        self.batch = settings.batch
        self.retry = settings.retry
        self._labeller = Labeller(settings.labels)
        self._user_agent = f"fleetgauge/{importlib.metadata.version('fleetgauge')}"
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._closed = False

    def start(self) -> None:
        """Reads the TLS files and begins to connect; whether the receiver is there shows at the first export."""
        self._export_call()

    def close(self) -> None:
        """Ends a running call and the connection; may be called twice."""
        with self._lock:
            self._closed = True
            self._drop_channel()

    def export(self, batch: Batch) -> Outcome:
        """Sends the batch in one call. A batch of heartbeats alone makes none."""
        payloads, refused = self._labelled(batch)
        size = sum(map(len, payloads))
        if size > self.settings.max_request_bytes and len(batch.records) > 1:
            return TooLarge(reason="max_request_bytes", detail=f"{size} bytes after labelling")
        if not payloads:
            return Delivered(refused=refused)
        outcome = self._send(b"".join(payloads))
        if isinstance(outcome, Delivered):
            return Delivered(refused=refused, rejected=outcome.rejected, detail=outcome.detail)
        return outcome

    def _labelled(self, batch: Batch) -> tuple[list[bytes], tuple[RefusedRecord, ...]]:
        payloads: list[bytes] = []
        refused: list[RefusedRecord] = []
        for record in batch.records:
            try:
                payloads.append(self._labeller.labelled(record))
            except MalformedPayloadError as error:
                refused.append(RefusedRecord(push_id=record.push_id, reason="malformed_payload", detail=str(error)))
        return [payload for payload in payloads if payload], tuple(refused)

    def _send(self, request: bytes) -> Outcome:
        try:
            call = self._export_call()
            response, _ = call(
                request,
                timeout=self.settings.timeout_ms / 1000,
                metadata=self.settings.headers,
                compression=COMPRESSIONS[self.settings.compression],
            )
        except OSError as error:
            return Retry(reason="tls_files", detail=str(error))
        except grpc.RpcError as error:
            return self._failed(error)
        except ValueError as error:  # gRPC's way to say that the channel was closed meanwhile
            return Retry(reason="cancelled", detail=str(error))
        return success(response)

    def _failed(self, error: grpc.RpcError) -> Outcome:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            with self._lock:  # the connection may be a dead one: the next call makes another
                self._drop_channel()
        trailers = [(datum.key, datum.value) for datum in error.trailing_metadata() or ()]
        return failure(error.code(), error.details() or "", trailers)

    def _export_call(self) -> _Export:
        with self._lock:
            if self._closed:
                raise ValueError("the exporter is closed")
            if self._channel is None:
                self._channel = open_channel(self.settings.endpoint, self.settings.tls, user_agent=self._user_agent)
                self._call: _Export = self._channel.unary_unary(EXPORT_METHOD, _as_is, _as_is).with_call
            return self._call

    def _drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def _as_is(message: bytes) -> bytes:
    return message


def otlp_exporter(name: str, values: Mapping[str, object]) -> OtlpExporter:
    """Makes an exporter from the keys of `[exporters.<name>]`, which `OtlpSettings` lists.

    Raises:
        ExporterConfigError: a key is unknown, or a value is not allowed.
    """
    options = Options(name, values)
    default = OtlpSettings()
    endpoint = options.text("endpoint", str(default.endpoint))
    try:
        parsed = OtlpEndpoint.parse(endpoint)
    except ValueError as error:
        raise options.error("endpoint", endpoint, str(error)) from error
    settings = OtlpSettings(
        endpoint=parsed,
        headers=_headers(options),
        timeout_ms=options.integer("timeout.ms", default.timeout_ms, minimum=1),
        compression=options.choice("compression", default.compression, tuple(COMPRESSIONS)),
        max_request_bytes=options.integer("max.request.bytes", default.max_request_bytes, minimum=1),
        tls=_tls_files(options, parsed),
        batch=batch_settings(options, default.batch),
        retry=retry_settings(options, default.retry),
        labels=label_settings(options, default.labels),
    )
    options.finish()
    return OtlpExporter(name, settings)


def _headers(options: Options) -> tuple[tuple[str, str], ...]:
    headers = tuple((name.lower(), value) for name, value in options.mapping("headers"))
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name) or name.startswith("grpc-") or name.endswith("-bin"):
            raise options.error(
                f"headers.{name}", value, "a header's name is of a-z, 0-9, _, - and . and not gRPC's own"
            )
        if not _HEADER_VALUE.fullmatch(value):
            raise options.error(f"headers.{name}", "(hidden)", "a header's value is printable ASCII")
    return headers


def _tls_files(options: Options, endpoint: OtlpEndpoint) -> TlsFiles:
    keys = ("tls.ca.file", "tls.cert.file", "tls.key.file")
    given = {key: text for key in keys if (text := options.optional_text(key)) is not None}
    for key, text in given.items():
        if not endpoint.tls:
            raise options.error(key, text, "TLS needs an endpoint that begins with https://")
        if not Path(text).is_file():
            raise options.error(key, text, "there is no such file")
    if ("tls.cert.file" in given) != ("tls.key.file" in given):
        raise options.error("tls.cert.file", given.get("tls.cert.file"), "certificate and key go together")
    ca, cert, key_file = (Path(given[key]) if key in given else None for key in keys)
    return TlsFiles(ca_file=ca, cert_file=cert, key_file=key_file)
