"""The TLS files of an OTLP exporter, and the sentence that an operator reads when one cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.certificates import Authority, Certificate, openssl
from support.payloads.payloads import metrics_data
from support.programs.push_log import push_record

from fleetgauge.exporters.exporter import Retry
from fleetgauge.exporters.otlp.endpoint import PROTOCOLS
from fleetgauge.exporters.otlp.exporter import otlp_exporter
from fleetgauge.push_log.log import Batch

NOBODY = "https://127.0.0.1:1"
BATCH = Batch(
    exporter="otlp", records=(push_record(1, metrics_data()),), first_position="1", last_position="1", size_bytes=1
)
GARBAGE = b"-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def ours(authority: Authority) -> Certificate:
    return authority.issue("ours", "/CN=fleetgauge")


@pytest.fixture(scope="module")
def of_another(authority: Authority) -> bytes:
    return authority.issue("another", "/CN=another").key.read_bytes()


@pytest.fixture(scope="module")
def locked(authority: Authority, ours: Certificate) -> bytes:
    """Our key, with a password."""
    openssl(
        "ec", "-aes128", "-passout", "pass:right", "-in", str(ours.key), "-out", "locked", directory=authority.directory
    )
    return (authority.directory / "locked").read_bytes()


@pytest.fixture(params=PROTOCOLS)
def outcome_with(
    request: pytest.FixtureRequest, authority: Authority, ours: Certificate, tmp_path: Path
) -> Callable[[str, bytes | None], tuple[list[str], Retry]]:
    """What is logged at the start, and what becomes of a batch, with one file of this content; None: no file."""

    def outcome(bad: str, content: bytes | None) -> tuple[list[str], Retry]:
        files = {"ca": authority.certificate, "cert": ours.certificate, "key": ours.key}
        for name, path in files.items():
            (tmp_path / name).write_bytes(path.read_bytes())
        keys = {f"tls.{name}.file": str(tmp_path / name) for name in files}
        exporter = otlp_exporter("otlp", {"protocol": request.param, "endpoint": NOBODY, **keys}, {})
        if content is None:
            (tmp_path / bad).unlink()
        else:
            (tmp_path / bad).write_bytes(content)
        with capture_logs() as logs:
            exporter.start()
        found = exporter.export(BATCH)
        (tmp_path / bad).write_bytes(files[bad].read_bytes())
        later = exporter.export(BATCH)
        exporter.close()
        assert isinstance(found, Retry)
        assert isinstance(later, Retry)
        assert later.reason == "unavailable"  # nobody is there, which is no matter of files
        return [log["problem"] for log in logs], found

    return outcome


@pytest.mark.parametrize(
    ("bad", "content", "problem"),
    [
        ("ca", GARBAGE, "holds no certificate in PEM form"),
        ("ca", b"", "holds no certificate in PEM form"),
        ("cert", GARBAGE, "holds no certificate in PEM form"),
        ("cert", None, "cannot be read: No such file or directory"),
        ("key", b"\x30\x00\xff", "holds no private key for tls.cert.file in PEM form without a password"),
        ("key", "of_another", "holds no private key for tls.cert.file in PEM form without a password"),
        ("key", "locked", "holds no private key for tls.cert.file in PEM form without a password"),
        ("key", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong_and_costs_no_push(
    bad: str, content: bytes | str | None, problem: str, request: pytest.FixtureRequest, tmp_path: Path,
    outcome_with: Callable[[str, bytes | None], tuple[list[str], Retry]],
) -> None:  # fmt: skip
    written = request.getfixturevalue(content) if isinstance(content, str) else content
    logged, outcome = outcome_with(bad, written)
    assert outcome.reason == "tls_files"
    assert outcome.detail.startswith(f"tls.{bad}.file {tmp_path / bad} {problem}")
    assert logged == [outcome.detail]
