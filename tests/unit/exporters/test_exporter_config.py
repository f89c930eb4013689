"""`[exporters.<name>]`: what is taken, and the sentence that an operator reads when it is not."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fleetgauge.base.machine import memory_bytes
from fleetgauge.exporters.kafka.exporter import KafkaTopicExporter, KafkaTopicExporterSettings
from fleetgauge.exporters.landing.exporter import LandingExporter, LandingSettings, default_batch
from fleetgauge.exporters.options import ExporterConfigError
from fleetgauge.exporters.otlp.endpoint import HTTP_PROTOBUF, OtlpEndpoint
from fleetgauge.exporters.otlp.exporter import OtlpExporter, otlp_exporter
from fleetgauge.exporters.otlp.settings import OtlpSettings
from fleetgauge.exporters.registry import EXPORTER_TYPES, build_exporter, check_exporter
from fleetgauge.exporters.self_metrics import self_metrics_settings


def otlp(**values: object) -> OtlpSettings:
    exporter = build_exporter("collector", {"type": "otlp", **{k.replace("__", "."): v for k, v in values.items()}})
    assert isinstance(exporter, OtlpExporter)
    return exporter.settings


def test_an_otlp_exporter_needs_no_key_at_all() -> None:
    assert otlp() == OtlpSettings()
    assert str(otlp().endpoint) == "http://localhost:4317"


def test_every_key_of_otlp_is_taken_typed_or_as_text() -> None:
    typed = otlp(
        endpoint="https://collector:4318", timeout__ms=5_000, compression="gzip", max__request__bytes=100,
        batch__max__bytes=90, batch__max__records=10, linger__ms=5, retry__backoff__ms=1, retry__backoff__max__ms=2,
        headers={"Authorization": "Bearer x"}, labels=["client_id", "node_id"], static__labels={"env": "prod"},
        namespace="payments", label__max__bytes=100,
    )  # fmt: skip
    text = otlp(
        endpoint="https://collector:4318", timeout__ms="5000", compression="GZIP", max__request__bytes="100",
        batch__max__bytes="90", batch__max__records="10", linger__ms="5", retry__backoff__ms="1",
        retry__backoff__max__ms="2", headers="Authorization=Bearer x", labels="client_id, node_id",
        static__labels__env="prod", namespace="payments", label__max__bytes="100",
    )  # fmt: skip
    assert typed == text
    assert typed.endpoint == OtlpEndpoint("collector", 4318, tls=True)
    assert typed.headers == (("authorization", "Bearer x"),)
    assert typed.labels.static == (("env", "prod"),)
    assert (typed.batch.max_bytes, typed.retry.backoff_max_ms, typed.labels.namespace) == (90, 2, "payments")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", OtlpEndpoint("localhost", 4317, tls=False)),
        ("http://10.0.0.1:14317/", OtlpEndpoint("10.0.0.1", 14317, tls=False)),
        ("https://otel.example.com", OtlpEndpoint("otel.example.com", 4317, tls=True)),
        ("[::1]:4317", OtlpEndpoint("[::1]", 4317, tls=False)),
    ],
)
def test_endpoints_are_read_as_operators_write_them(text: str, expected: OtlpEndpoint) -> None:
    assert OtlpEndpoint.parse(text) == expected


@pytest.mark.parametrize("text", ["ftp://x:1", "http://x:0", "http://x:70000", "http://x:1/v1/metrics", "a b", "u@h:1"])
def test_endpoints_that_gRPC_could_not_use_are_refused(text: str) -> None:  # noqa: N802  # its name
    with pytest.raises(ExporterConfigError, match=r"exporters\.collector\.endpoint is .*expected http://host:port"):
        otlp(endpoint=text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"linger_ms": 5}, r"exporters\.collector\.linger_ms: there is no such key.*there are type, .*linger\.ms"),
        ({"timeout.ms": "soon"}, r"timeout\.ms is 'soon': expected a whole number from 1"),
        ({"timeout.ms": 0}, r"timeout\.ms is 0"),
        ({"timeout.ms": True}, r"timeout\.ms is True"),
        ({"compression": "zstd"}, r"compression is 'zstd': expected one of none, gzip"),
        ({"labels": ["host"]}, r"labels is .*'host' is not one of client_instance_id"),
        ({"labels": 5}, r"labels is 5: expected a list"),
        ({"static.labels": "env"}, r"static\.labels is 'env': expected name=value"),
        ({"static.labels": {"client_id": "x"}}, r"static\.labels is .*cannot be named 'client_id'"),
        ({"headers": {"a b": "x"}}, r"headers\.a b: a header's name"),
        ({"headers": {"grpc-timeout": "x"}}, r"headers\.grpc-timeout: a header's name"),
        (
            {"headers": {"Content-Type": "x"}},
            r"headers\.content-type: that header is set by Fleetgauge",
        ),
        ({"protocol": "http/json"}, r"protocol is 'http/json': expected one of grpc, http/protobuf"),
        ({"retry.backoff.ms": 9_000}, r"retry\.backoff\.ms is 9000: expected a whole number from 1 to 3000"),
        ({"endpoint": ""}, r"endpoint is '': expected a text"),
        ({"tls.ca.file": "/ca.pem"}, r"tls\.ca\.file is '/ca\.pem': TLS needs an endpoint that begins with https://"),
        ({"endpoint": "https://x", "tls.ca.file": "/no/ca.pem"}, r"tls\.ca\.file is .*there is no such file"),
        ({"type": "pulsar"}, r"exporters\.collector\.type is 'pulsar': expected one of .*kafka_topic, landing, otlp"),
        ({"type": "landing"}, r"exporters\.collector\.path is '': expected a text"),
        ({"type": "landing", "path": "bogus://x"}, r"path is 'bogus://x': expected a path, or a URI"),
        (
            {"type": "landing", "path": "s3://"},
            r"path is 's3://': expected a path, or a URI.*it names no bucket or folder",
        ),
        ({"type": "landing", "path": "x", "labels": []}, r"labels: there is no such key"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(values: dict[str, object], message: str) -> None:
    with pytest.raises(ExporterConfigError, match=message):
        build_exporter("collector", {"type": "otlp", **values})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
        ("collector", "http://collector:4318/v1/metrics"),
        ("https://otlp.example.com", "https://otlp.example.com:443/v1/metrics"),
        ("http://[::1]/", "http://[::1]:80/v1/metrics"),
        ("https://x:1/otlp/", "https://x:1/otlp/v1/metrics"),
        ("https://x:1/otlp/v1/metrics", "https://x:1/otlp/v1/metrics"),
    ],
)
def test_an_endpoint_of_http_is_a_base_url(text: str, expected: str) -> None:
    assert str(otlp(protocol="http/protobuf", endpoint=text).endpoint) == expected


def test_http_needs_no_endpoint_either() -> None:
    assert str(otlp(protocol="http/protobuf").endpoint) == "http://localhost:4318/v1/metrics"


@pytest.mark.parametrize("text", ["http://x/?a=b", "http://u:p@x", "http://x/a b", "http://x:0/", "x:99999", "//x"])
def test_endpoints_that_http_could_not_use_are_refused(text: str) -> None:
    with pytest.raises(ExporterConfigError, match=r"exporters\.collector\.endpoint is .*expected http://host:port"):
        otlp(protocol="http/protobuf", endpoint=text)


def from_variables(values: Mapping[str, object] | None = None, **variables: str) -> OtlpSettings:
    environment = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
    return otlp_exporter("collector", values or {}, environment).settings


def test_the_standard_variables_set_what_the_file_does_not() -> None:
    found = from_variables(
        {"timeout.ms": 7, "headers.x-team": "payments"},
        ENDPOINT="http://collector:4317", HEADERS="api-key=a%20b,x=y", TIMEOUT="1500", COMPRESSION="gzip",
    )  # fmt: skip
    assert str(found.endpoint) == "http://collector:4317"
    assert (found.timeout_ms, found.compression) == (7, "gzip")
    assert found.headers == (("x-team", "payments"),)
    assert from_variables(HEADERS="api-key=a%20b, x=y").headers == (("api-key", "a b"), ("x", "y"))


def test_variables_for_metrics_win_over_those_for_every_signal_and_empty_ones_say_nothing() -> None:
    found = from_variables(
        ENDPOINT="http://all:4318/base", METRICS_ENDPOINT="http://metrics:4318/take", PROTOCOL="grpc",
        METRICS_PROTOCOL="http/protobuf", TIMEOUT="1", METRICS_TIMEOUT="2", METRICS_COMPRESSION="", COMPRESSION="gzip",
    )  # fmt: skip
    assert (found.protocol, str(found.endpoint)) == (HTTP_PROTOBUF, "http://metrics:4318/take")
    assert (found.timeout_ms, found.compression) == (2, "gzip")


def test_an_endpoint_for_metrics_is_taken_as_it_is_and_one_for_all_signals_is_a_base() -> None:
    http = {"protocol": "http/protobuf"}
    assert from_variables(dict(http), METRICS_ENDPOINT="http://x:1").endpoint.path == "/"
    assert from_variables(dict(http), ENDPOINT="http://x:1").endpoint.path == "/v1/metrics"
    own: dict[str, object] = {**http, "endpoint": "http://y:2/base"}
    assert str(from_variables(own, METRICS_ENDPOINT="http://x:1").endpoint) == "http://y:2/base/v1/metrics"


def test_an_endpoint_variable_without_a_scheme_means_tls_unless_it_is_said_to_be_insecure() -> None:
    assert from_variables(ENDPOINT="x:1").endpoint.tls
    assert not from_variables(ENDPOINT="x:1", INSECURE="true").endpoint.tls
    assert from_variables(ENDPOINT="x:1", INSECURE="true", METRICS_INSECURE="false").endpoint.tls


def test_certificate_variables_say_nothing_about_an_endpoint_without_tls(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    names = {"CERTIFICATE": str(tmp_path / "ca.pem")}
    assert from_variables({"endpoint": "http://x:1"}, **names).tls.ca_file is None
    assert from_variables({"endpoint": "https://x:1"}, **names).tls.ca_file == tmp_path / "ca.pem"


def test_variables_name_our_own_certificate_and_its_key_for_metrics_or_for_all_signals(tmp_path: Path) -> None:
    files = {name: str(tmp_path / name) for name in ("ca", "cert", "key", "other")}
    for path in files.values():
        Path(path).write_text("x")
    https = {"endpoint": "https://x:1"}
    names = {"CERTIFICATE": files["ca"], "CLIENT_CERTIFICATE": files["cert"], "CLIENT_KEY": files["key"]}
    found = from_variables(dict(https), **names).tls
    assert (found.ca_file, found.cert_file, found.key_file) == tuple(
        Path(files[name]) for name in ("ca", "cert", "key")
    )
    found = from_variables(
        dict(https), METRICS_CLIENT_KEY=files["other"], METRICS_CERTIFICATE=files["key"], **names
    ).tls
    assert (found.ca_file, found.key_file) == (Path(files["key"]), Path(files["other"]))
    assert from_variables({**https, "tls.key.file": files["other"]}, **names).tls.key_file == Path(files["other"])
    with pytest.raises(ExporterConfigError, match="set certificate and key together"):
        from_variables(dict(https), CLIENT_CERTIFICATE=files["cert"])


def test_headers_for_metrics_win_whole_over_those_for_every_signal() -> None:
    found = from_variables(HEADERS="api-key=a,x=y", METRICS_HEADERS="api-key=m")
    assert found.headers == (("api-key", "m"),)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PROTOCOL": "http/json"}, r"protocol is 'http/json': .*\(from OTEL_EXPORTER_OTLP_PROTOCOL\)"),
        ({"METRICS_TIMEOUT": "10s"}, r"timeout\.ms is '10s': .*\(from OTEL_EXPORTER_OTLP_METRICS_TIMEOUT\)"),
        ({"HEADERS": "api-key"}, r"headers: .*\(from OTEL_EXPORTER_OTLP_HEADERS\)"),
        ({"ENDPOINT": "http://x:1/base"}, r"a path belongs to protocol = .*\(from OTEL_EXPORTER_OTLP_ENDPOINT\)"),
    ],
)
def test_a_wrong_variable_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ExporterConfigError, match=message):
        from_variables(None, **variables)


def test_a_header_that_may_be_a_secret_is_not_shown() -> None:
    with pytest.raises(ExporterConfigError) as caught:
        otlp(headers={"authorization": "s3cret\n"})
    assert "s3cret" not in str(caught.value)


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("x")
    with pytest.raises(ExporterConfigError, match="set certificate and key together"):
        otlp(endpoint="https://x", tls__cert__file=str(tmp_path / "cert.pem"))


@pytest.mark.parametrize(
    "secret", ["s3c/r3t", "12/s3cr3t", "s3c r3t", "s3c@r3t", "s3c%r3t", "s3c?r3t", "s3c'r3t", "s@3c/r3t", "s/3c@r/3t"]
)
def test_no_part_of_a_secret_key_in_a_path_that_is_wrong_is_shown(secret: str) -> None:
    path = f"s3://AKIA:{secret}@bucket/landing?region=us-east-1&bogus=1"
    with pytest.raises(ExporterConfigError) as caught:
        build_exporter("lake", {"type": "landing", "path": path})
    assert not [part for part in ("AKIA", "s3c", "r3t", "3t") if part in str(caught.value)]
    assert "s3://bucket/landing" in str(caught.value)
    assert ("written as %2F" in str(caught.value)) == ("/" in secret.partition("@")[0])


def test_a_landing_zone_needs_its_path_alone_and_touches_nothing_yet(tmp_path: Path) -> None:
    exporter = build_exporter("spark", {"type": "landing", "path": str(tmp_path / "landing")})
    assert isinstance(exporter, LandingExporter)
    assert exporter.settings == LandingSettings(path=str(tmp_path / "landing"))
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_landing_zone_are_larger_where_there_is_more_memory_and_never_beyond_what_a_reader_holds() -> None:
    mib = 1 << 20
    sizes = [default_batch(memory * mib).max_bytes // mib for memory in (0, 256, 1_024, 1_536, 2_048, 1 << 20)]
    assert sizes == [64, 64, 128, 192, 256, 256]
    assert LandingSettings(path="x").batch == default_batch(memory_bytes())


def test_every_type_of_exporter_has_a_name_and_batches() -> None:
    needed = {"landing": {"path": "y"}, "kafka_topic": {"bootstrap.servers": "127.0.0.1:1", "topic": "pushes"}}
    for kind in EXPORTER_TYPES:
        exporter = build_exporter("x", {"type": kind, **needed.get(kind, {})})
        assert (exporter.name, exporter.batch.max_records > 0) == ("x", True)


def kafka(**values: object) -> KafkaTopicExporterSettings:
    keys = {"bootstrap.servers": "127.0.0.1:1", "topic": "pushes", **values}
    exporter = build_exporter("lake", {"type": "kafka_topic", **keys})
    assert isinstance(exporter, KafkaTopicExporter)
    return exporter.settings


def test_a_topic_needs_its_name_and_its_brokers_alone() -> None:
    found = kafka()
    assert (found.format, found.timeout_ms, found.topic.bootstrap_servers) == ("record", 10_000, "127.0.0.1:1")
    assert found.topic.client["client.id"] == "fleetgauge-lake"
    assert found.topic.client["delivery.timeout.ms"] == "10000"


def test_every_key_of_a_topic_is_taken_typed_or_as_text() -> None:
    typed = kafka(
        **{
            "bootstrap.servers": ["127.0.0.1:1", "127.0.0.1:2"], "format": "otlp", "timeout.ms": 5_000,
            "topic.partitions": 3, "topic.replication.factor": 2, "topic.retention.ms": -1, "max.record.bytes": 100,
            "client": {"socket.keepalive.enable": True}, "labels": ["client_id"], "batch.max.records": 7,
        }
    )  # fmt: skip
    text = kafka(
        **{
            "bootstrap.servers": "127.0.0.1:1, 127.0.0.1:2", "format": "OTLP", "timeout.ms": "5000",
            "topic.partitions": "3", "topic.replication.factor": "2", "topic.retention.ms": "-1",
            "max.record.bytes": "100", "client.socket.keepalive.enable": "true", "labels": "client_id",
            "batch.max.records": "7",
        }
    )  # fmt: skip
    assert typed == text
    assert typed.topic.client["socket.keepalive.enable"] == "true"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"topic": ""}, r"exporters\.lake\.topic is '': expected a text"),
        ({"bootstrap.servers": []}, r"bootstrap\.servers is \[\]: expected at least one"),
        ({"bootstrap.servers": [5]}, r"bootstrap\.servers is \[5\]: expected a list of texts"),
        ({"format": "avro"}, r"format is 'avro': expected one of record, otlp"),
        ({"labels": "client_id"}, r"labels: there is no such key"),
        ({"client.acks": "1"}, r"client\.acks: that is set by Fleetgauge"),
        ({"client.delivery.report.only.error": "true"}, r"only\.error: that is set by Fleetgauge"),
        ({"client.oauth_cb": "s3cret"}, r"client: the Kafka client rejects its settings: .*oauth_cb"),
        ({"client.transactional.id": "x"}, r"client\.transactional\.id: that is set by Fleetgauge"),
        ({"client.delivery.timeout.ms": "1"}, r"client\.delivery\.timeout\.ms: that is what timeout\.ms sets"),
        (
            {"client.sasl.pasword": "s3cret"},
            r"client: the Kafka client rejects its settings.*sasl\.pasword",
        ),
        ({"topic.replication.factor": 0}, r"topic\.replication\.factor is 0: expected a positive number, or -1"),
        ({"topic.retention.ms": 0}, r"topic\.retention\.ms is 0: expected a positive number, or -1"),
    ],
)
def test_a_wrong_key_of_a_topic_is_named_and_no_secret_shown(values: dict[str, object], message: str) -> None:
    with pytest.raises(ExporterConfigError, match=message) as caught:
        kafka(**values)
    assert "s3cret" not in str(caught.value)


def test_self_metrics_take_the_keys_and_variables_of_an_otlp_connection() -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}
    found = self_metrics_settings(
        "own", {"type": "self_metrics", "interval.ms": "5000", "compression": "gzip"}, variables
    )
    assert (str(found.connection.endpoint), found.interval_ms) == ("http://collector:4317", 5_000)
    assert found.connection.compression == "gzip"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"interval.ms": 5}, r"exporters\.own\.interval\.ms is 5: expected a whole number from 100"),
        ({"linger.ms": 5}, r"exporters\.own\.linger\.ms: there is no such key"),
        ({"endpoint": "x y"}, r"exporters\.own\.endpoint is 'x y': expected http://host:port"),
    ],
)
def test_a_wrong_key_of_self_metrics_is_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ExporterConfigError, match=message):
        check_exporter("own", {"type": "self_metrics", **values})
