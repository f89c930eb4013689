"""Checks the destinations of the configuration: each `[exporters.<name>]` is reached once, and gets no data."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fleetgauge.cli.node.doctor.finding import Finding, error, ok, skipped
from fleetgauge.cli.node.doctor.machine import check_writable
from fleetgauge.exporters.exporter import Delivered
from fleetgauge.exporters.landing.exporter import open_storage
from fleetgauge.exporters.landing.storage import storage_errors
from fleetgauge.exporters.otlp.exporter import make_transport
from fleetgauge.exporters.otlp.settings import otlp_options, otlp_settings
from fleetgauge.exporters.registry import EXPORTER_TYPES
from fleetgauge.exporters.tls_files import TlsFilesError
from fleetgauge.node.config import ServiceConfig


def check_destinations(config: ServiceConfig) -> Iterator[Finding]:
    """One finding per exporter. The topic of a `kafka_topic` is checked with its brokers."""
    for name, keys in config.exporters.items():
        yield _destination(f"exporters.{name} ({keys['type']})", name, keys)


def _destination(check: str, name: str, keys: Mapping[str, Any]) -> Finding:
    kind = keys["type"]
    if kind == "landing":
        return _landing(check, str(keys["path"]))
    if kind == "otlp":
        return _otlp(check, name, keys)
    if kind == "kafka_topic":
        return skipped(check, "see its brokers below")
    if kind in EXPORTER_TYPES:
        return skipped(check, "its destination is this machine")
    return skipped(check, "fleetgauge status --exporters shows at run time whether it delivers")


def _landing(check: str, path: str) -> Finding:
    if "://" not in path:
        return check_writable(f"{check} {path}", Path(path.removeprefix("file:")).absolute())
    try:
        open_storage(path, "doctor").partitions()
    except storage_errors(ValueError) as problem:
        reason = str(problem).partition("\n")[0]
        remedy = "Look at path, which holds the storage's address, and at the credentials, in it or in the environment."
        return error(check, f"the storage cannot be listed: {reason}", remedy)
    return ok(check, "the storage can be listed; whether it can be written shows with the first file")


def _otlp(check: str, name: str, keys: Mapping[str, Any]) -> Finding:
    """Sends one request without metrics, which every receiver accepts: it tests address, TLS and credentials."""
    settings = otlp_settings(otlp_options(name, keys, os.environ))
    transport = make_transport(settings)
    try:
        transport.open()
        outcome = transport.send(b"")
    except TlsFilesError as problem:
        remedy = f"Correct the TLS files in exporters.{name}, or of OTEL_EXPORTER_OTLP_*."
        return error(check, f"{settings.endpoint}: {problem}", remedy)
    finally:
        transport.close()
    if isinstance(outcome, Delivered):
        return ok(check, f"{settings.endpoint} accepts requests")
    return error(
        check,
        f"{settings.endpoint}: {outcome.detail or outcome.reason}",
        f"Start the receiver, or correct endpoint, protocol, headers or the TLS files in exporters.{name}; what is not "
        "set there is that of OTEL_EXPORTER_OTLP_*.",
    )
