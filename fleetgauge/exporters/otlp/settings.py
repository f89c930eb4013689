"""Settings of an OTLP connection and of the exporter `otlp`, read from keys and environment variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fleetgauge.base.redaction import HIDDEN
from fleetgauge.exporters.exporter import BatchSettings, RetrySettings
from fleetgauge.exporters.labels import LabelSettings
from fleetgauge.exporters.options import Options, batch_settings, label_settings, retry_settings
from fleetgauge.exporters.otlp.endpoint import DEFAULT_ENDPOINTS, GRPC, HTTP_PROTOBUF, PROTOCOLS, OtlpEndpoint
from fleetgauge.exporters.otlp.environment import METRICS_VARIABLES, FromVariable, environment_values
from fleetgauge.exporters.tls_files import CA_FILE, CERT_FILE, KEY_FILE, TlsFiles

COMPRESSIONS: Final = {GRPC: ("none", "gzip"), HTTP_PROTOBUF: ("none", "gzip", "zstd")}
"""Compressions of each protocol. OTLP requires only gzip; the Collector's HTTP receiver also accepts zstd."""

AS_SENT: Final = "as_sent"
TEMPORALITIES: Final = (AS_SENT, "cumulative", "delta")

_TLS_KEYS: Final = (CA_FILE, CERT_FILE, KEY_FILE)
_HEADER_NAME = re.compile(r"[0-9a-z_.-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_RESERVED_HEADERS: Final = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "host", "te", "transfer-encoding"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """An `otlp` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        endpoint: `http://host:4317`, `https://host:4317` (TLS) or `host:4317` (key `endpoint`); see `OtlpEndpoint`.
        protocol: `grpc` or `http/protobuf` (key `protocol`).
        headers: headers of every call, names in lower case (key `headers`).
        timeout_ms: maximum duration of a call (key `timeout.ms`) [ms].
        compression: `none`, `gzip`, or with `http/protobuf` `zstd` (key `compression`).
        max_request_bytes: labelled batches that are larger are halved (key `max.request.bytes`) [B]. The collector's
            own limit is 4 MiB by default.
        tls: keys `tls.ca.file`, `tls.cert.file`, `tls.key.file`.
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`; with 3 s at most, delivery resumes within 5 s.
        labels: keys `labels`, `static.labels`, `namespace`, `label.max.bytes`.
        temporality: one of `TEMPORALITIES` (key `temporality`).
        state_file: file that keeps the counts of series over a restart (key `state.file`), unless `temporality` is
            `as_sent`; None keeps them only in memory. Under `fleetgauge` the default is in the data directory.
    """

    endpoint: OtlpEndpoint = OtlpEndpoint("localhost", 4317, tls=False)
    protocol: str = GRPC
    headers: tuple[tuple[str, str], ...] = ()
    timeout_ms: int = 10_000
    compression: str = "none"
    max_request_bytes: int = 1_048_576
    tls: TlsFiles = TlsFiles()
    batch: BatchSettings = BatchSettings(max_bytes=786_432, max_records=5_000, linger_ms=200)
    retry: RetrySettings = RetrySettings(backoff_max_ms=3_000)
    labels: LabelSettings = LabelSettings()
    temporality: str = AS_SENT
    state_file: Path | None = None


def otlp_options(name: str, values: Mapping[str, object], environment: Mapping[str, str]) -> Options:
    """The keys of `[exporters.<name>]`, and the standard variables for missing keys."""
    variables = _applicable(environment_values(environment), values)
    from_variables = {key: each.value for key, each in variables.items()}
    return Options(name, {**from_variables, **values}, sources={key: each.variable for key, each in variables.items()})


def otlp_settings(options: Options) -> OtlpSettings:
    """Reads the settings of an `otlp` exporter.

    Raises:
        ExporterConfigError: a key is unknown, or a value is not allowed; the text names the variable of the value.
    """
    default = OtlpSettings()
    settings = replace(
        connection_settings(options),
        max_request_bytes=options.integer("max.request.bytes", default.max_request_bytes, minimum=1),
        batch=batch_settings(options, default.batch),
        retry=retry_settings(options, default.retry),
        labels=label_settings(options, default.labels),
        temporality=options.choice("temporality", default.temporality, TEMPORALITIES),
        state_file=Path(state_file) if (state_file := options.optional_text("state.file")) else None,
    )
    options.finish()
    return settings


def connection_settings(options: Options) -> OtlpSettings:
    """Reads the settings of the connection: endpoint, protocol, headers, time-out, compression, TLS.

    Raises:
        ExporterConfigError: a value is not allowed.
    """
    default = OtlpSettings()
    protocol = options.choice("protocol", default.protocol, PROTOCOLS)
    endpoint = _endpoint(options, protocol)
    return OtlpSettings(
        endpoint=endpoint,
        protocol=protocol,
        headers=_headers(options),
        timeout_ms=options.integer("timeout.ms", default.timeout_ms, minimum=1),
        compression=options.choice("compression", default.compression, COMPRESSIONS[protocol]),
        tls=_tls_files(options, endpoint),
    )


def _applicable(variables: Mapping[str, FromVariable], values: Mapping[str, object]) -> dict[str, FromVariable]:
    """The variables whose keys are not in the file: the file wins, key by key."""
    written = {key.partition(".")[0] if key.startswith("headers.") else key for key in values}
    return {key: each for key, each in variables.items() if key not in written}


def _endpoint(options: Options, protocol: str) -> OtlpEndpoint:
    text = options.text("endpoint", DEFAULT_ENDPOINTS[protocol])
    as_it_is = options.source("endpoint").startswith(METRICS_VARIABLES)
    try:
        return OtlpEndpoint.parse(text, protocol, as_it_is=as_it_is)
    except ValueError as error:
        raise options.error("endpoint", text, str(error)) from error


def _headers(options: Options) -> tuple[tuple[str, str], ...]:
    headers = tuple((name.lower(), value) for name, value in options.mapping("headers", secret=True))
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name) or name.startswith("grpc-") or name.endswith("-bin"):
            raise options.error(
                f"headers.{name}", HIDDEN, "a header's name has a-z, 0-9, _, - and . and is not reserved by gRPC"
            )
        if name in _RESERVED_HEADERS:
            raise options.error(f"headers.{name}", HIDDEN, "that header is set by Fleetgauge")
        if not _HEADER_VALUE.fullmatch(value):
            raise options.error(f"headers.{name}", HIDDEN, "a header's value has to be printable ASCII")
    return headers


def _tls_files(options: Options, endpoint: OtlpEndpoint) -> TlsFiles:
    texts = ((key, options.optional_text(key)) for key in _TLS_KEYS)
    # Variables are often set for a whole machine: without TLS they do not apply to this endpoint.
    given = {key: text for key, text in texts if text is not None and (endpoint.tls or not options.source(key))}
    for key, text in given.items():
        if not endpoint.tls:
            raise options.error(key, text, "TLS needs an endpoint that begins with https://")
        if not Path(text).is_file():
            raise options.error(key, text, "there is no such file")
    if (CERT_FILE in given) != (KEY_FILE in given):
        raise options.error(CERT_FILE, given.get(CERT_FILE), "set certificate and key together")
    ca, cert, key_file = (Path(given[key]) if key in given else None for key in _TLS_KEYS)
    return TlsFiles(ca_file=ca, cert_file=cert, key_file=key_file)
