"""The settings of a `prometheus` exporter, and how they are read from `[exporters.<name>]`."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporters.exporter import BatchSettings, RetrySettings
from exporters.labels import LabelSettings
from exporters.options import Options, batch_settings, label_settings, retry_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSettings:
    """Bounds of the series on the page. A histogram counts as all its samples, a client as one more.

    Attributes:
        max_series: in total (key `series.max`).
        max_per_client: per client (key `series.max.per.client`).
        max_per_metric: per metric (key `series.max.per.metric`).
        linger_ms: minimum time that a series stays after a push, also a terminating one, so that scrapes see it (key
            `series.linger.ms`) [ms].
    """

    max_series: int = 200_000
    max_per_client: int = 1_000
    max_per_metric: int = 50_000
    linger_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Address of the page; port 0 is any free port.

    Source of the default: OpenTelemetry specification, "Metrics Exporter - Prometheus" (localhost, 9464).
    """

    host: str = "127.0.0.1"
    port: int = 9_464

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Reads `host:port`, the host an IP address or `localhost`.

        Raises:
            ValueError: the text is not an address.
        """
        host, colon, port = text.rpartition(":")
        if not colon or not (port.isascii() and port.isdigit() and int(port) < 65_536):
            raise ValueError("expected an address and a port, such as 127.0.0.1:9464")
        host = host.removeprefix("[").removesuffix("]")
        if host == "localhost":
            return cls(host="127.0.0.1", port=int(port))
        try:
            return cls(host=str(ipaddress.ip_address(host)), port=int(port))
        except ValueError:
            raise ValueError("expected an IP address before the port; 0.0.0.0 is every one of this machine") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """A `prometheus` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        listen: address of the page `/metrics` (key `listen`).
        state_file: file that keeps the counters over a restart (key `state.file`); None keeps them only in memory.
            Under `fleetgauge` the default is in the data directory.
        series: keys `series.max`, `series.max.per.client`, `series.max.per.metric`, `series.linger.ms`.
        labels: keys `labels`, `static.labels`, `namespace`, `label.max.bytes`; `client_instance_id` is always added.
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`.
    """

    listen: Address = Address()
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
    state_file = options.optional_text("state.file")
    settings = PrometheusSettings(
        listen=listen,
        state_file=Path(state_file) if state_file else None,
        series=_series_settings(options, default.series),
        labels=label_settings(options, default.labels),
        batch=batch_settings(options, default.batch),
        retry=retry_settings(options, default.retry),
    )
    options.finish()
    return settings


def _series_settings(options: Options, default: SeriesSettings) -> SeriesSettings:
    return SeriesSettings(
        max_series=options.integer("series.max", default.max_series, minimum=1),
        max_per_client=options.integer("series.max.per.client", default.max_per_client, minimum=1),
        max_per_metric=options.integer("series.max.per.metric", default.max_per_metric, minimum=1),
        linger_ms=options.integer("series.linger.ms", default.linger_ms, minimum=0, maximum=86_400_000),
    )
