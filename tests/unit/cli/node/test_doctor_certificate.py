"""The names of a listener's certificate, as a client checks them."""

from pathlib import Path

import pytest
from support.certificates import Authority

from fleetgauge.cli.node.doctor.certificate import name_problem
from fleetgauge.wire.tls.server import ClientAuth, TlsSettings, make_server_context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_good"),
    [
        ("kafka.example.com", True),
        ("broker-1.kafka.example.com", True),
        ("BROKER-1.kafka.example.com", True),
        ("1.broker.kafka.example.com", False),  # a wildcard is one label (RFC 6125, 6.4.3)
        ("kafka.example.org", False),
    ],
)
@pytest.mark.parametrize("client_auth", ClientAuth)
def test_a_certificate_is_good_for_its_names_alone(
    authority: Authority, name: str, is_good: bool, client_auth: ClientAuth
) -> None:
    names = "DNS:*.kafka.example.com,DNS:kafka.example.com"
    keystore = authority.issue("server", "/CN=kafka.example.org", names=names).keystore
    settings = TlsSettings(
        keystore_location=str(keystore), truststore_location=str(authority.certificate), client_auth=client_auth
    )
    problem = name_problem(make_server_context(settings), name)
    assert problem == ("" if is_good else f"Hostname mismatch, certificate is not valid for '{name}'.")


def test_a_certificate_that_has_expired_is_told(authority: Authority, tmp_path: Path) -> None:
    keystore = authority.issue("old", "/CN=old", names="DNS:kafka.example.com", days=-1).keystore
    context = make_server_context(TlsSettings(keystore_location=str(keystore)))
    assert "expired" in name_problem(context, "kafka.example.com")
