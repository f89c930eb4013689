"""`[exporters.<name>]`: what is taken, and the sentence that an operator reads when it is not."""

from pathlib import Path

import pytest

from exporters.landing import LandingExporter, LandingSettings
from exporters.options import ExporterConfigError
from exporters.otlp import OtlpExporter, OtlpSettings
from exporters.otlp_channel import OtlpEndpoint
from exporters.registry import EXPORTER_TYPES, build_exporter


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
        ({"linger_ms": 5}, r"exporters\.collector\.linger_ms is 5: there is no such key.*there are type, .*linger\.ms"),
        ({"timeout.ms": "soon"}, r"timeout\.ms is 'soon': expected a whole number from 1"),
        ({"timeout.ms": 0}, r"timeout\.ms is 0"),
        ({"timeout.ms": True}, r"timeout\.ms is True"),
        ({"compression": "zstd"}, r"compression is 'zstd': expected one of none, gzip"),
        ({"labels": ["host"]}, r"labels is .*'host' is not one of client_instance_id"),
        ({"labels": 5}, r"labels is 5: expected a list"),
        ({"static.labels": "env"}, r"static\.labels is 'env': expected name=value"),
        ({"static.labels": {"client_id": "x"}}, r"static\.labels is .*cannot be named 'client_id'"),
        ({"headers": {"a b": "x"}}, r"headers\.a b is 'x': a header's name"),
        ({"headers": {"grpc-timeout": "x"}}, r"headers\.grpc-timeout is 'x': a header's name"),
        ({"retry.backoff.ms": 9_000}, r"retry\.backoff\.ms is 9000: expected a whole number from 1 to 3000"),
        ({"endpoint": ""}, r"endpoint is '': expected a text"),
        ({"tls.ca.file": "/ca.pem"}, r"tls\.ca\.file is '/ca\.pem': TLS needs an endpoint that begins with https://"),
        ({"endpoint": "https://x", "tls.ca.file": "/no/ca.pem"}, r"tls\.ca\.file is .*there is no such file"),
        ({"type": "kafka"}, r"exporters\.collector\.type is 'kafka': expected one of landing, otlp, prometheus"),
        ({"type": "landing"}, r"exporters\.collector\.path is '': expected a text"),
        ({"type": "landing", "path": "bogus://x"}, r"path is 'bogus://x': expected a path, or a URI"),
        ({"type": "landing", "path": "x", "labels": []}, r"labels is \[\]: there is no such key"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(values: dict[str, object], message: str) -> None:
    with pytest.raises(ExporterConfigError, match=message):
        build_exporter("collector", {"type": "otlp", **values})


def test_a_header_that_may_be_a_secret_is_not_shown() -> None:
    with pytest.raises(ExporterConfigError) as caught:
        otlp(headers={"authorization": "s3cret\n"})
    assert "s3cret" not in str(caught.value)


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("x")
    with pytest.raises(ExporterConfigError, match="certificate and key go together"):
        otlp(endpoint="https://x", tls__cert__file=str(tmp_path / "cert.pem"))


def test_a_landing_zone_needs_its_path_alone_and_touches_nothing_yet(tmp_path: Path) -> None:
    exporter = build_exporter("spark", {"type": "landing", "path": str(tmp_path / "landing")})
    assert isinstance(exporter, LandingExporter)
    assert exporter.settings == LandingSettings(path=str(tmp_path / "landing"))
    assert list(tmp_path.iterdir()) == []


def test_every_type_of_exporter_has_a_name_and_batches() -> None:
    for kind in EXPORTER_TYPES:
        exporter = build_exporter("x", {"type": kind} | ({"path": "y"} if kind == "landing" else {}))
        assert (exporter.name, exporter.batch.max_records > 0) == ("x", True)
