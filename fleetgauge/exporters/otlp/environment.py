"""Reads the standard `OTEL_EXPORTER_OTLP_*` variables as keys of an exporter.

Source: OpenTelemetry specification, "OpenTelemetry Protocol Exporter" (Configuration Options) and "Environment Variable
Specification". A variable for metrics replaces the general one as a whole: headers are not joined. An empty variable
counts as unset. Times are in milliseconds, as in the specification.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

_KEYS: Final[Mapping[str, str]] = {
    "ENDPOINT": "endpoint",
    "PROTOCOL": "protocol",
    "HEADERS": "headers",
    "TIMEOUT": "timeout.ms",
    "COMPRESSION": "compression",
    "CERTIFICATE": "tls.ca.file",
    "CLIENT_CERTIFICATE": "tls.cert.file",
    "CLIENT_KEY": "tls.key.file",
}
"""Variable name without its prefix, one of the two below -> key of `[exporters.<name>]`."""

_ALL_SIGNALS: Final = "OTEL_EXPORTER_OTLP_"
METRICS_VARIABLES: Final = "OTEL_EXPORTER_OTLP_METRICS_"
"""Prefix of the variables for metrics alone."""


class FromVariable(NamedTuple):
    """A key's value, and the variable that it comes from."""

    value: object
    variable: str


def environment_values(environment: Mapping[str, str]) -> dict[str, FromVariable]:
    """The values that the variables set, by key."""
    values: dict[str, FromVariable] = {}
    for suffix, key in _KEYS.items():
        variable = _chosen(environment, suffix)
        if variable is not None:
            values[key] = FromVariable(environment[variable].strip(), variable)
    if "endpoint" in values:
        values["endpoint"] = values["endpoint"]._replace(value=_with_scheme(str(values["endpoint"].value), environment))
    if "headers" in values:
        values["headers"] = values["headers"]._replace(value=_decoded(str(values["headers"].value)))
    return values


def _chosen(environment: Mapping[str, str], suffix: str) -> str | None:
    names = (METRICS_VARIABLES + suffix, _ALL_SIGNALS + suffix)
    return next((name for name in names if environment.get(name, "").strip()), None)


def _with_scheme(endpoint: str, environment: Mapping[str, str]) -> str:
    """`host:port` means TLS, unless `..._INSECURE` is true (configuration option "Insecure")."""
    if "://" in endpoint:
        return endpoint
    variable = _chosen(environment, "INSECURE")
    insecure = variable is not None and environment[variable].strip().lower() == "true"
    return f"{'http' if insecure else 'https'}://{endpoint}"


def _decoded(headers: str) -> str | dict[str, object]:
    """`name=value,name=value` with values percent-encoded (W3C Baggage); any other text is returned unchanged."""
    pairs = [part.partition("=") for part in headers.split(",") if part.strip()]
    if not all(equals and name.strip() for name, equals, _ in pairs):
        return headers
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs}
