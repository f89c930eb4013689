"""A configuration that is read again and again: what a file may not become, and who may read it."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from fleetgauge.node.config import ConfigError, load_config
from fleetgauge.node.config.reader import ConfigReader, _is_secret
from fleetgauge.node.config.sources import MAX_FILE_BYTES

ONE_KEY = '"node.id" = 7\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + '{ "a" = ' * 20_000, "nested too deeply"),
        ("a" + ".a" * 2_000 + " = 1", "nested too deeply"),
        ("a = " + "9" * 5_000, "not valid TOML"),
        ("# " + "x" * MAX_FILE_BYTES, "larger than 4 MiB"),
        ("\0", "not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_a_configuration_is_refused_in_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says) as raised:
        load_config(file)
    assert str(file) in str(raised.value)
    assert len(str(raised.value)) < 500


def test_an_endless_file_is_read_no_further_than_its_bound() -> None:
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        load_config(Path("/dev/zero"))


@pytest.mark.parametrize("empty", ["", "\n\n", "# all of it is gone\n", "[exporters]\n"])
def test_an_empty_file_means_the_defaults_at_the_start_and_is_refused_after_one_with_keys(
    tmp_path: Path, empty: str
) -> None:
    file = tmp_path / "fleetgauge.toml"
    file.write_text(empty)
    reader = ConfigReader(file, {}, ())
    assert reader.read() == reader.read() == load_config()
    file.write_text(ONE_KEY)
    assert reader.read().node_id == 7
    file.write_text(empty)
    for _ in range(2):
        with pytest.raises(ConfigError, match="is empty, which would remove every subscription"):
            reader.read()
    file.write_text(ONE_KEY)
    assert reader.read().node_id == 7


def exposed(tmp_path: Path, text: str, mode: int, *overrides: str) -> list[str]:
    file = tmp_path / "fleetgauge.toml"
    file.write_text(text)
    file.chmod(mode)
    reader = ConfigReader(file, {}, overrides)
    reader.read()
    with capture_logs() as said:
        reader.warn_of_exposed_secrets()
    if not said:
        return []
    (warning,) = said
    assert f"chmod 0600 {file}" in warning["event"]
    assert "secret@" not in str(warning)
    return list(warning["keys"])


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o660])
def test_a_file_with_secrets_that_others_may_read_is_warned_of_with_its_keys(tmp_path: Path, mode: int) -> None:
    text = 'listeners = "TLS://127.0.0.1:0"\n"listener.security.protocol.map" = "TLS:PLAINTEXT"\n'
    secret = '[exporters.collector]\ntype = "otlp"\nendpoint = "http://127.0.0.1:4317"\nheaders = "authorization=x"\n'
    assert exposed(tmp_path, text + secret, mode) == ["exporters.collector.headers"]


@pytest.mark.parametrize(
    ("key", "value", "is_secret"),
    [
        ("ssl.key.password", "k", True),
        ("listener.name.tls.ssl.keystore.key", "-----BEGIN", True),
        ("push.log.kafka.client.sasl.password", "k", True),
        ("sasl.users.alice.scram-sha-256", "salt=...", True),
        ("exporters.landing.path", "s3://key:secret@bucket/landing", True),
        ("exporters.landing.path", "s3://bucket/landing", False),
        ("ssl.key.password", "${file:/run/secrets/tls:password}", False),
        ("ssl.key.password", "", False),
        ("node.id", 7, False),
    ],
)
def test_what_counts_as_a_secret(key: str, value: object, *, is_secret: bool) -> None:
    assert _is_secret(key, value) == is_secret


def test_a_file_that_is_this_users_alone_or_has_no_secret_is_not_warned_of(tmp_path: Path) -> None:
    secret = '[exporters.collector]\ntype = "otlp"\nendpoint = "http://127.0.0.1:4317"\nheaders = "authorization=x"\n'
    assert exposed(tmp_path, secret, 0o600) == []
    assert exposed(tmp_path, secret, 0o400) == []
    assert exposed(tmp_path, ONE_KEY, 0o644) == []
