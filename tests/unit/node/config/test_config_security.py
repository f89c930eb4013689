"""What listeners ask of their clients: Kafka's keys, for the node and for one listener."""

from pathlib import Path

import pytest
from support.certificates import Authority, openssl
from typer.testing import CliRunner

from fleetgauge.cli import app
from fleetgauge.node.config import ConfigError, load_config
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.sasl.credentials import ScramCredential, ScramMechanism
from fleetgauge.wire.security_protocol import SecurityProtocol

ALICE = ScramCredential.make(ScramMechanism.SCRAM_SHA_256, "secret", iterations=4096)
USER = f"sasl.users.alice.scram-sha-256={ALICE}"
SASL = ["listeners=SASL_PLAINTEXT://127.0.0.1:0", USER]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def keystore(authority: Authority) -> Path:
    return authority.issue("server", "/CN=localhost").keystore


def built(*overrides: str) -> dict[str, ListenerSecurity]:
    return load_config(overrides=overrides).security_keys().build()


def test_a_listener_named_like_a_protocol_speaks_it(keystore: Path) -> None:
    listeners = ",".join(f"{protocol}://127.0.0.1:0" for protocol in SecurityProtocol)
    securities = built(f"listeners={listeners}", f"ssl.keystore.location={keystore}", USER)
    assert {name: security.protocol.value for name, security in securities.items()} == {p: p for p in SecurityProtocol}


def test_other_names_are_mapped_in_kafkas_form() -> None:
    securities = built(
        "listeners=EXTERNAL://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map=external:SASL_PLAINTEXT, INSIDE:plaintext",
        USER,
    )
    assert [security.protocol.value for security in securities.values()] == ["SASL_PLAINTEXT", "PLAINTEXT"]


def test_a_listeners_own_value_wins(keystore: Path, authority: Authority) -> None:
    securities = built(
        "listeners=A://127.0.0.1:0,A.B://127.0.0.1:0",
        "listener.security.protocol.map=A:SASL_SSL,A.B:SSL",
        f"ssl.keystore.location={keystore}",
        f"ssl.truststore.location={authority.certificate}",
        "sasl.enabled.mechanisms=PLAIN",
        "listener.name.a.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN",
        "listener.name.a.connections.max.reauth.ms=5000",
        "listener.name.a.b.ssl.client.auth=required",
        "listener.name.a.b.proxy.protocol.enable=true",
        "listener.name.a.b.proxy.protocol.trusted.addresses=10.0.0.0/8",
        USER,
    )
    sasl = securities["A"].sasl
    assert sasl is not None
    assert (sasl.mechanisms, sasl.max_reauth_ms) == (("SCRAM-SHA-512", "PLAIN"), 5000)
    assert securities["A"].proxy is None
    tls, proxy = securities["A.B"].tls, securities["A.B"].proxy
    assert tls is not None
    assert tls.verify_mode.name == "CERT_REQUIRED"
    assert proxy is not None
    assert proxy.includes("10.1.1.1")


def test_the_nodes_client_auth_is_for_ssl_listeners_alone_as_in_kafka(keystore: Path, authority: Authority) -> None:
    securities = built(
        "listeners=SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        f"ssl.keystore.location={keystore}",
        f"ssl.truststore.location={authority.certificate}",
        "ssl.client.auth=required",
        USER,
    )
    modes = [security.tls.verify_mode.name for security in securities.values() if security.tls is not None]
    assert modes == ["CERT_REQUIRED", "CERT_NONE"]


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["listeners=EXTERNAL://127.0.0.1:0"], ["listener.security.protocol.map", "EXTERNAL:PLAINTEXT"]),
        (["listener.security.protocol.map=PLAINTEXT:TLS"], ["NAME:PROTOCOL", "SASL_SSL"]),
        (["listener.security.protocol.map=A:SSL,a:SSL"], ["twice"]),
        (["listeners=SASL_PLAINTEXT://127.0.0.1:0"], ["sasl.users", "fleetgauge credentials"]),
        (["sasl.users.alice.password=secret"], ["sasl.users.alice.password", "no password is kept"]),
        (["sasl.users.alice.scram-sha-256=secret"], ["fleetgauge credentials alice", "salt="]),
        ([*SASL, "sasl.enabled.mechanisms=GSSAPI"], ["sasl.enabled.mechanisms", "PLAIN, SCRAM-SHA-256"]),
        ([*SASL, "sasl.jaas.config=x"], ["sasl.jaas.config", "[sasl.users.<name>]"]),
        (["ssl.keystore.password=x"], ["ssl.key.password"]),
        (["ssl.keystore.type=JKS"], ["ssl.keystore.type", "keytool -importkeystore"]),
        (["ssl.truststore.type=pkcs12"], ["ssl.truststore.type", "openssl pkcs12"]),
        (["ssl.enabled.protocols=TLSv1.1,TLSv1.2"], ["TLSv1.2 and TLSv1.3"]),
        (["ssl.client.auth=maybe"], ["'none', 'requested' or 'required'"]),
        (["ssl.principal.mapping.rules=RULE:x"], ["ssl.principal.mapping.rules", "RULE:pattern/replacement/"]),
        (["proxy.protocol.enable=true"], ["proxy.protocol.trusted.addresses", "10.0.0.0/8"]),
        (["proxy.protocol.trusted.addresses=10.0.0.1/8"], ["host bits"]),
        (["listener.name.nosuch.ssl.client.auth=none"], ["belongs to no listener", "listener.name.plaintext."]),
        (["listener.name.plaintext.node.id=3"], ["listener.name.plaintext.node.id", "is not one of ssl.keystore.type"]),
        (["listener.name.plaintext.ssl.client.auth=x"], ["listener.name.plaintext.ssl.client.auth", "'x'"]),
        (["listener.name.plaintext.sasl.jaas.config=x"], ["[sasl.users.<name>]"]),
    ],
)
def test_what_cannot_be_used_is_named_with_what_to_do(overrides: list[str], says: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(overrides=overrides)
    for part in says:
        assert part in str(refused.value)
    assert "--override" in str(refused.value) or "listener" in str(refused.value)


def test_a_bad_credential_is_named_without_being_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(overrides=["sasl.users.alice.scram-sha-512=my-clear-password"])
    assert "my-clear-password" not in str(refused.value)


def encrypted(authority: Authority, tmp_path: Path, password: str) -> Path:
    mine = authority.issue("encrypted", "/CN=localhost")
    openssl(
        *("pkcs8", "-topk8", "-in", str(mine.key), "-out", str(tmp_path / "e.key"), "-passout", f"pass:{password}"),
        directory=tmp_path,
    )
    store = tmp_path / "encrypted.pem"
    store.write_text((tmp_path / "e.key").read_text() + mine.certificate.read_text())
    return store


def test_an_encrypted_key_opens_with_its_password_alone(authority: Authority, tmp_path: Path) -> None:
    store = encrypted(authority, tmp_path, "open sesame")
    overrides = ["listeners=SSL://127.0.0.1:0", f"ssl.keystore.location={store}"]
    assert built(*overrides, "ssl.key.password=open sesame")["SSL"].tls is not None
    for more, says in (([], "it is encrypted: set ssl.key.password"), (["ssl.key.password=x"], "does not open it")):
        with pytest.raises(ConfigError, match=says):
            built(*overrides, *more)


def test_key_and_chain_may_stand_in_the_configuration_itself(authority: Authority) -> None:
    mine = authority.issue("inline", "/CN=localhost")
    overrides = [
        "listeners=SSL://127.0.0.1:0",
        f"ssl.keystore.key={mine.key.read_text()}",
        f"ssl.keystore.certificate.chain={mine.certificate.read_text()}",
        f"ssl.truststore.certificates={authority.certificate.read_text()}",
        "ssl.client.auth=requested",
    ]
    assert built(*overrides)["SSL"].tls is not None
    with pytest.raises(ConfigError, match="use only one of them"):
        built(*overrides, f"ssl.keystore.location={mine.keystore}")


def test_files_that_cannot_be_used_say_what_to_do(authority: Authority, keystore: Path, tmp_path: Path) -> None:
    other = authority.issue("other", "/CN=localhost")
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(other.key.read_text() + authority.certificate.read_text())
    jks, der, words = tmp_path / "a.jks", tmp_path / "a.p12", tmp_path / "words.pem"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    der.write_bytes(b"\x30\x82\x01\x02")
    words.write_text("nothing in PEM form")
    tls = "listeners=SSL://127.0.0.1:0"
    good = f"ssl.keystore.location={keystore}"
    for overrides, says in (
        ([tls], r"needs a PEM file .*\(listener SSL\)"),
        ([tls, "ssl.keystore.location=/nonexistent"], "No such file"),
        ([tls, f"ssl.keystore.location={mixed}"], "belongs to another certificate"),
        ([tls, f"ssl.keystore.location={jks}"], "keytool -importkeystore"),
        ([tls, f"ssl.keystore.location={der}"], "openssl pkcs12"),
        ([tls, f"ssl.keystore.location={words}"], "must hold a private key and its certificate"),
        ([tls, good, "ssl.client.auth=required"], "ssl.client.auth=required needs"),
        ([tls, good, f"ssl.truststore.location={jks}"], "keytool -importkeystore"),
        ([tls, good, f"ssl.truststore.location={words}"], "holds no certificates"),
        ([tls, good, "ssl.truststore.location=/nonexistent"], "No such file"),
    ):
        with pytest.raises(ConfigError, match=says):
            built(*overrides)


def test_the_credentials_command_makes_lines_that_the_configuration_takes(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["credentials", 'o\'neil, "x"=ü@example.com'], input="pass word\n")
    assert made.exit_code == 0, made.output
    file = tmp_path / "fleetgauge.toml"
    file.write_text('listeners = "SASL_PLAINTEXT://127.0.0.1:0"\n' + made.stdout)
    assert "pass word" not in file.read_text()
    security = load_config(file).security_keys().build()["SASL_PLAINTEXT"]
    assert security.sasl is not None
    store = security.sasl.store
    assert 'o\'neil, "x"=ü@example.com' in store
    assert store.plain('o\'neil, "x"=ü@example.com').fits(b"pass word")
    assert store.plain('o\'neil, "x"=ü@example.com').mechanism is ScramMechanism.SCRAM_SHA_512


def test_the_credentials_command_makes_one_mechanism_on_request_and_refuses_no_password() -> None:
    runner = CliRunner()
    made = runner.invoke(
        app, ["credentials", "a", "-m", "scram-sha-256", "--iterations", "4096"], input="x\n", catch_exceptions=False
    )
    assert ("scram-sha-256" in made.stdout, "scram-sha-512" in made.stdout) == (True, False)
    assert "iterations=4096" in made.stdout
    with pytest.raises(ConfigError, match="at least one character"):
        runner.invoke(app, ["credentials", "a"], input="\n", catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "given", "problem"),
    [
        (("--http", "read", "a:b"), b"password\n", "'a:b' has a character"),
        (("--http", "read", ""), b"password\n", "empty name"),
        (("--http", "read", "--token", "a"), "tokentokentoken\u00e9-token\n".encode(), "RFC 6750"),
        (("--http", "read", "--token", "a"), b"0123456789 0123456789\n", "RFC 6750"),
        (("--http", "read", "-m", "scram-sha-256", "a"), b"password\n", "--mechanism"),
        (("a",), b"pass\xffword\n", "not UTF-8"),
    ],
)
def test_no_lines_are_printed_that_no_client_could_log_in_with(
    arguments: tuple[str, ...], given: bytes, problem: str
) -> None:
    result = CliRunner().invoke(app, ["credentials", *arguments], input=given)
    assert isinstance(result.exception, ConfigError)
    assert problem in str(result.exception)
    assert not result.stdout
