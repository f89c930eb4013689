"""The settings of a `prometheus` exporter, and how they are read from `[exporters.<name>]`."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import re2

from fleetgauge.exporters.exporter import BatchSettings, RetrySettings
from fleetgauge.exporters.labels import LabelSettings
from fleetgauge.exporters.options import Options, batch_settings, label_settings, retry_settings
from fleetgauge.exporters.prometheus.derived_labels import DERIVED
from fleetgauge.http.access import AccessSettings
from fleetgauge.http.loopback import is_loopback
from fleetgauge.wire.tls.server import TLS_VERSIONS, ClientAuth, TlsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSettings:
    """Bounds of the series on the page. A histogram counts as all its samples, a client as one more.

    Attributes:
        max_series: in total (key `series.max`).
        max_per_client: per client (key `series.max.per.client`).
        max_per_metric: per metric (key `series.max.per.metric`).
        linger_ms: minimum time that a series stays after a push, also a terminating one, so that scrapes see it (key
            `series.linger.ms`) [ms].
        created_timestamps: OpenMetrics has a line `_created` for each series whose client sends the start of its count
            (key `created.timestamps`). These lines are not counted as samples.
    """

    max_series: int = 200_000
    max_per_client: int = 1_000
    max_per_metric: int = 50_000
    linger_ms: int = 60_000
    created_timestamps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Address of the page, with TLS or without; port 0 is any free port.

    Source of the default: OpenTelemetry specification, "Metrics Exporter - Prometheus" (localhost, 9464).
    """

    host: str = "127.0.0.1"
    port: int = 9_464
    is_secure: bool = False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Reads `host:port` or `https://host:port`, the host an IP address or `localhost`.

        Raises:
            ValueError: the text is not an address.
        """
        is_secure = text.startswith("https://")
        host, colon, port = text.removeprefix("https://").removeprefix("http://").rpartition(":")
        if not colon or not (port.isascii() and port.isdigit() and int(port) < 65_536):
            raise ValueError("expected an address and a port, such as 127.0.0.1:9464")
        host = host.removeprefix("[").removesuffix("]")
        if host == "localhost":
            return cls(host="127.0.0.1", port=int(port), is_secure=is_secure)
        try:
            return cls(host=str(ipaddress.ip_address(host)), port=int(port), is_secure=is_secure)
        except ValueError:
            raise ValueError(
                "expected an IP address before the port; 0.0.0.0 means all addresses of this machine"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """A `prometheus` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        listen: address of the page `/metrics` (key `listen`).
        access: who may use it, and its TLS (keys `http.users.file`, `http.anonymous.access`, `http.ssl.*`).
        state_file: file that keeps the counters over a restart (key `state.file`); None keeps them only in memory.
            Under `fleetgauge` the default is in the data directory.
        series: keys `series.max`, `series.max.per.client`, `series.max.per.metric`, `series.linger.ms`,
            `created.timestamps`.
        labels: keys `labels`, which may have those of `DERIVED`, `application.pattern`, `static.labels`, `namespace`,
            `label.max.bytes`; `client_instance_id` is always added.
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`.
    """

    listen: Address = Address()
    access: AccessSettings = AccessSettings()
    state_file: Path | None = None
    series: SeriesSettings = SeriesSettings()
    labels: LabelSettings = LabelSettings(labels=("client_id", "client_instance_id"), max_value_bytes=1_024)
    batch: BatchSettings = BatchSettings(max_bytes=4_194_304, max_records=2_000, linger_ms=500)
    retry: RetrySettings = RetrySettings()


def prometheus_settings(name: str, values: Mapping[str, object]) -> PrometheusSettings:
    """Reads the keys of `[exporters.<name>]`.

    Raises:
        ExporterConfigError: a key is unknown, or a value is not allowed.
    """
    options = Options(name, values)
    default = PrometheusSettings()
    text = options.text("listen", str(default.listen))
    try:
        listen = Address.parse(text)
    except ValueError as error:
        raise options.error("listen", text, str(error)) from error
    access = access_settings(options)
    local = is_loopback(listen.host)
    if problem := access.refusal(text, is_loopback=local, is_secure=listen.is_secure):
        raise options.error("listen", text, problem)
    state_file = options.optional_text("state.file")
    settings = PrometheusSettings(
        listen=listen,
        access=access,
        state_file=Path(state_file) if state_file else None,
        series=_series_settings(options, default.series),
        labels=_label_settings(options, default.labels),
        batch=batch_settings(options, default.batch),
        retry=retry_settings(options, default.retry),
    )
    options.finish()
    return settings


def _label_settings(options: Options, default: LabelSettings) -> LabelSettings:
    pattern = options.optional_text("application.pattern") or ""
    try:
        groups = re2.compile(pattern).groups if pattern else 1
    except re2.error as error:
        raise options.error("application.pattern", pattern, f"no RE2: {error}") from error
    if groups < 1:
        raise options.error("application.pattern", pattern, "its first group, in parentheses, is the application")
    return replace(label_settings(options, default, DERIVED), application_pattern=pattern)


def access_settings(options: Options) -> AccessSettings:
    """Reads `http.users.file`, `http.anonymous.access` and `http.ssl.*`; by default they are the node's own."""
    users = options.optional_text("http.users.file")
    keystore = options.optional_text("http.ssl.keystore.location")
    tls = TlsSettings(
        keystore_location=keystore or "",
        key_password=options.optional_text("http.ssl.key.password") or "",
        truststore_location=options.optional_text("http.ssl.truststore.location") or "",
        client_auth=ClientAuth(options.choice("http.ssl.client.auth", "none", tuple(ClientAuth))),
        versions=options.names("http.ssl.enabled.protocols", TLS_VERSIONS, TLS_VERSIONS),
        cipher_suites=options.optional_listed("http.ssl.cipher.suites"),
        crl_location=options.optional_text("http.ssl.crl.location") or "",
    )
    return AccessSettings(
        users_file=Path(users) if users else None,
        everywhere=options.choice("http.anonymous.access", "loopback", ("loopback", "everywhere")) == "everywhere",
        tls=tls if keystore else None,
    )


def _series_settings(options: Options, default: SeriesSettings) -> SeriesSettings:
    return SeriesSettings(
        max_series=options.integer("series.max", default.max_series, minimum=1),
        max_per_client=options.integer("series.max.per.client", default.max_per_client, minimum=1),
        max_per_metric=options.integer("series.max.per.metric", default.max_per_metric, minimum=1),
        linger_ms=options.integer("series.linger.ms", default.linger_ms, minimum=0, maximum=86_400_000),
        created_timestamps=options.flag("created.timestamps", default.created_timestamps),
    )
