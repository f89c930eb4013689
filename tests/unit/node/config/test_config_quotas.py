"""`[quotas]`: whom a limit is for, what is refused and how it says so, and what `fleetgauge config` shows."""

import math
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetgauge.cli import app
from fleetgauge.cluster.quotas.limits import read_entity, read_limits
from fleetgauge.node.config import ConfigError, load_config

FILE = """
client.quota.callback.config.quota.groups = "a: alice"
"quota.window.num" = 6
[quotas."users/alice/clients/<default>"]
request_percentage = 12.5
telemetry_push_rate = 0.5
[quotas."users/CN=app,O=me"]
producer_byte_rate = 1048576
[quotas."clients/<default>"]
telemetry_byte_rate = 2000
[quotas."ips/::ffff:192.0.2.7"]
connection_creation_rate = 20
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "fleetgauge.toml"
    file.write_text(text)
    return file


def test_limits_are_read_by_entity(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, FILE))
    found = {(str(entity), key): limit for (entity, key), limit in read_limits(config.quotas).items()}
    assert found == {
        ("user alice default client-id", "request_percentage"): 12.5,
        ("user alice default client-id", "telemetry_push_rate"): 0.5,
        ("user CN%3Dapp%2CO%3Dme", "producer_byte_rate"): 1_048_576,
        ("default client-id", "telemetry_byte_rate"): 2_000,
        ("ip 192.0.2.7", "connection_creation_rate"): 20,
    }
    assert config.quota_window_num == 6


@pytest.mark.parametrize(
    ("path", "entity"),
    [
        ("users/alice", "user alice"),
        ("/users/<default>", "default user"),
        ("clients/my.app", "client-id my.app"),
        ("users/<default>/clients/a%2Fb", "default user client-id a/b"),
        ("users/%3Cdefault%3E", "user %3Cdefault%3E"),
        ("ips/<default>", "default ip"),
        ("ips/2001:DB8:0::1", "ip 2001:db8::1"),
    ],
)
def test_an_entity_is_written_as_kafkas_path(path: str, entity: str) -> None:
    assert str(read_entity(path)) == entity


def test_an_override_wins_over_the_file(tmp_path: Path) -> None:
    overrides = ["quotas.users/alice.request_percentage=3", "quotas.clients/my.app.telemetry_push_rate=1"]
    config = load_config(write(tmp_path, '[quotas."users/alice"]\nrequest_percentage = 5\n'), overrides=overrides)
    assert config.quotas == {"users/alice": {"request_percentage": 3.0}, "clients/my.app": {"telemetry_push_rate": 1.0}}


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("quotas.users/alice.request_percent=1", ["request_percent", "request_percentage", "telemetry_byte_rate"]),
        ("quotas.users/alice.connection_creation_rate=1", ["Invalid configuration key", "request_percentage"]),
        ("quotas.ips/10.0.0.1.request_percentage=1", ["Invalid configuration key", "connection_creation_rate"]),
        ("quotas.ips/10.0.0.1.connection_creation_rate=1.5", ["cannot be a fractional value"]),
        ("quotas.ips/localhost.connection_creation_rate=1", ["localhost"]),
        ("quotas.users/alice.request_percentage=0", ["greater than 0", "0"]),
        ("quotas.users/alice.telemetry_push_rate=-1", ["Quota telemetry_push_rate must be greater than 0"]),
        ("quotas.users/alice.telemetry_push_rate=nan", ["a number above 0", "'nan'"]),
        ("quotas.users/alice.telemetry_push_rate=inf", ["a number above 0", "leave it out"]),
        ("quotas.users/alice.telemetry_push_rate=lots", ["a number above 0", "'lots'"]),
        ("quotas.users/alice.producer_byte_rate=1e30", ["too large"]),
        ("quotas.users.alice.request_percentage=1", ["'users.alice' is no entity", "users/<name>"]),
        ("quotas.user/alice.request_percentage=1", ["'user/alice' is no entity", "users/<name>"]),
        ("quotas.users/.request_percentage=1", ["'users/' is no entity"]),
        ("quotas.users/a/ips/10.0.0.1.request_percentage=1", ["is not a quota entity"]),
        ("quotas.clients/a/users/b.request_percentage=1", ["is not a quota entity"]),
        ("quotas.request_percentage=1", ['[quotas."users/alice"]']),
        ("quota.window.num=0", ["quota.window.num"]),
    ],
)
def test_what_kafka_refuses_is_refused_in_a_sentence_that_names_it(override: str, says: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(overrides=[override])
    text = str(raised.value)
    assert override.partition("=")[0] in text
    assert "--override" in text
    for word in says:
        assert word in text


def test_a_telemetry_quota_is_refused_with_several_workers_and_other_quotas_are_not() -> None:
    load_config(overrides=["workers=2", "quotas.users/alice.request_percentage=1"])
    with pytest.raises(ConfigError, match="telemetry_byte_rate needs workers=1, and workers is 2"):
        load_config(overrides=["workers=2", "quotas.users/alice.telemetry_byte_rate=1"])


def test_a_truth_is_no_limit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a number above 0, not True"):
        load_config(write(tmp_path, '[quotas."users/alice"]\nrequest_percentage = true\n'))


def test_one_entity_does_not_stand_there_in_two_forms(tmp_path: Path) -> None:
    file = write(tmp_path, '[quotas."users/a"]\nrequest_percentage = 1\n[quotas."users/%61"]\nrequest_percentage = 2\n')
    with pytest.raises(ConfigError, match="the same entity as users/a"):
        load_config(file)


def test_the_printed_configuration_has_the_limits_and_can_be_read_again(tmp_path: Path) -> None:
    file = write(tmp_path, FILE + '[quotas."users/quote\\"d"]\nrequest_percentage = 0.00001\n')
    printed = CliRunner().invoke(app, ["config", "--config", str(file)])
    assert printed.exit_code == 0, printed.output
    assert 'client.quota.callback.config.quota.groups = "[hidden]"' in printed.output
    shown = tomllib.loads(printed.output)["quotas"]
    assert shown == tomllib.loads(file.read_text())["quotas"]
    assert math.isclose(shown['users/quote"d']["request_percentage"], 1e-5)
