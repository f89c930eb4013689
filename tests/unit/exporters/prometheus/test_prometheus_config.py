"""The keys of `[exporters.<name>]` with `type = "prometheus"`, and where the state lies."""

from pathlib import Path
from typing import Any

import pytest

from fleetgauge.exporters.options import ExporterConfigError
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.settings import Address, PrometheusSettings, SeriesSettings
from fleetgauge.exporters.registry import build_exporter
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.processes.exporter_logs import exporter_keys


def settings_of(**values: Any) -> PrometheusSettings:
    keys = {key.replace("__", "."): value for key, value in values.items()}
    exporter = build_exporter("page", {"type": "prometheus", **keys})
    assert isinstance(exporter, PrometheusExporter)
    assert exporter.url is None, "nothing is served before the start"
    return exporter.settings


def test_nothing_has_to_be_said_and_only_this_machine_may_read_the_page() -> None:
    settings = settings_of()
    assert settings == PrometheusSettings()
    assert str(settings.listen) == "127.0.0.1:9464"
    assert settings.labels.labels == ("client_id", "client_instance_id")


def test_the_page_and_the_nodes_http_port_can_be_served_side_by_side_by_default() -> None:
    [http] = ServiceConfig().http_listeners
    assert http.host == settings_of().listen.host
    assert http.port != settings_of().listen.port


def test_every_key_is_read() -> None:
    settings = settings_of(
        listen="[::1]:9999", state__file="/x/y.db", series__max="10", series__max__per__client=3,
        series__max__per__metric=4, series__linger__ms=5, created__timestamps=True,
        labels="client_id,principal", static__labels={"env": "prod"}, batch__max__records=7, retry__backoff__ms=8,
    )  # fmt: skip
    assert str(settings.listen) == "[::1]:9999"
    assert settings.state_file == Path("/x/y.db")
    assert settings.series == SeriesSettings(
        max_series=10, max_per_client=3, max_per_metric=4, linger_ms=5, created_timestamps=True
    )
    assert settings.labels.labels == ("client_id", "principal")
    assert (settings.batch.max_records, settings.retry.backoff_ms) == (7, 8)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"listen": "9464"}, r"page\.listen is '9464': expected an address and a port, such as 127\.0\.0\.1:9464"),
        ({"listen": "127.0.0.1:70000"}, "expected an address and a port"),
        ({"listen": "example.com:9464"}, "expected an IP address before the port"),
        ({"series__max": 0}, r"series\.max is 0: expected a whole number from 1"),
        ({"series__linger__ms": -1}, r"series\.linger\.ms is -1"),
        ({"created__timestamps": "yes"}, r"created\.timestamps is 'yes': expected true or false"),
        ({"labels": ["nonsense"]}, "'nonsense' is not one of"),
        (
            {"port": 9464},
            "there is no such key for this type of exporter; there are type, application.pattern, batch.max.bytes",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ExporterConfigError, match=message):
        settings_of(**values)


def test_localhost_is_the_loopback_address() -> None:
    assert Address.parse("localhost:1") == Address(host="127.0.0.1", port=1)


def test_the_state_lies_in_the_data_directory_apart_for_each_process() -> None:
    keys = {"type": "prometheus"}
    alone = exporter_keys(keys, "page", "", Path("/data"))
    second = exporter_keys(keys, "page", "node-1", Path("/data"))
    assert (alone["state.file"], second["state.file"]) == (
        "/data/prometheus-page.db",
        "/data/prometheus-page-node-1.db",
    )
    assert exporter_keys({**keys, "state.file": "/x"}, "page", "", Path("/data"))["state.file"] == "/x"
    assert "state.file" not in exporter_keys({"type": "otlp"}, "page", "", Path("/data"))


def test_labels_may_be_derived_ones_and_the_application_a_pattern_of_ones_own() -> None:
    settings = settings_of(labels="client_id,application,library", application__pattern="([a-z]+)-.*")
    assert (settings.labels.labels, settings.labels.derived) == (("client_id",), ("application", "library"))
    assert settings.labels.application_pattern == "([a-z]+)-.*"


@pytest.mark.parametrize("pattern", ["([a-z", "[a-z]+", "(?<name>x)("])
def test_a_pattern_that_names_no_application_is_refused(pattern: str) -> None:
    with pytest.raises(ExporterConfigError, match=r"application\.pattern"):
        settings_of(application__pattern=pattern)
