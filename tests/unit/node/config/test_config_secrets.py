"""Secrets in a configuration: shown nowhere, and taken from files and environment variables by reference."""

import io
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from fleetgauge.base.redaction import HIDDEN, hide, is_secret, shown, without_credentials
from fleetgauge.cli import app
from fleetgauge.node.config import ConfigError, load_config
from fleetgauge.node.listener.parts import NOT_FOR_PLUGINS
from fleetgauge.node.logs import configure_logging
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.job_line import from_line, to_line
from fleetgauge.node.reconfiguration import changeable_fields, log_reread

SECRET = "Zq7-not-to-be-shown"  # what the tests look for

TOPIC = '[exporters.o]\ntype = "kafka_topic"\ntopic = "t"\n"bootstrap.servers" = "h:1"\n'
EVERY_SECRET = f"""
ssl.key.password = "{SECRET}"
ssl.keystore.key = "{SECRET}"
listener.name.external.ssl.key.password = "{SECRET}"
listeners = "EXTERNAL://127.0.0.1:0"
listener.security.protocol.map = "EXTERNAL:PLAINTEXT"
push.log.kafka.client."sasl.password" = "{SECRET}"
push.log.kafka.client."sasl.oauthbearer.config" = "secret={SECRET}"
push.log.kafka.client."sasl.oauthbearer.client.secret" = "{SECRET}"
push.log.kafka.client."sasl.oauthbearer.token.endpoint.url" = "https://u:{SECRET}@idp/token?client_secret={SECRET}"
push.log.kafka.client."ssl.key.pem" = "{SECRET}"
client.quota.callback.config.database = "{SECRET}"
[exporters.otel]
type = "otlp"
headers = {{ authorization = "Bearer {SECRET}", x-team = "{SECRET}" }}
[exporters.text]
type = "otlp"
headers = "authorization=Bearer {SECRET}"
[exporters.lake]
type = "landing"
path = "s3://AKIA:{SECRET}@bucket/landing?region=eu"
[exporters.topic]
type = "kafka_topic"
bootstrap.servers = "h:1"
topic = "t"
client."sasl.password" = "{SECRET}"
client."ssl.key.password" = "{SECRET}"
client."sasl.oauthbearer.config" = "principal=a secret={SECRET}"
[exporters.one]
type = "kafka_topic"
bootstrap.servers = "h:1"
topic = "t"
client = "sasl.password={SECRET}"
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        file = tmp_path / "fleetgauge.toml"
        file.write_text(text)
        return file

    return written


def printed(file: Path, *arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(app, ["config", "--config", str(file), *arguments], env=environment)
    assert result.exception is None, result.exception
    return str(result.output)


def test_no_secret_of_any_table_is_printed(write: Callable[[str], Path]) -> None:
    out = printed(write(EVERY_SECRET))
    assert SECRET not in out
    assert "AKIA" not in out
    for line in (
        'ssl.key.password = "[hidden]"',
        'headers.x-team = "[hidden]"',
        'headers = "[hidden]"',
        'client = "[hidden]"',
        'path = "s3://bucket/landing?region=eu"',
        'client.quota.callback.config.database = "[hidden]"',
        'push.log.kafka.client.sasl.oauthbearer.token.endpoint.url = "https://idp/token?client_secret=[hidden]"',
    ):
        assert line in out


def test_of_an_exporter_whose_type_is_not_ours_no_value_is_printed(write: Callable[[str], Path]) -> None:
    text = f'[exporters.hook]\ntype = "support.programs.exporter_types:any_keys"\nhook = "https://h/{SECRET}"\n'
    out = printed(write(text))
    assert 'type = "support.programs.exporter_types:any_keys"' in out
    assert 'hook = "[hidden]"' in out


@pytest.mark.parametrize(
    "line",
    [
        f'[exporters.o]\ntype = "otlp"\npassword = "{SECRET}"',
        f'[exporters.o]\ntype = "otlp"\nhedaers.authorization = "{SECRET}"',
        f'[exporters.o]\ntype = "otlp"\nheaders = ["{SECRET}"]',
        f'[exporters.o]\ntype = "otlp"\nheaders.authorization = "{SECRET}\\n"',
        f'[exporters.o]\ntype = "otlp"\nendpoint = "http://u:{SECRET}@"',
        f'[exporters.o]\ntype = "otlp"\nendpoint = "u:{SECRET}@host:4317"',
        f'[exporters.o]\ntype = "otlp"\nendpoint = "http://host:1/?api_key={SECRET}"',
        f'[exporters.o]\ntype = "otlp"\nendpoint = "http://host:1/?x=1&%74oken={SECRET}"',
        f'[exporters.o]\ntype = "landing"\npath = "s3://A:{SECRET}/x@bucket"',
        f'[exporters.o]\ntype = "landing"\npath = "nosuch://bucket?secret_key={SECRET}"',
        TOPIC + f'client."sasl.passwort" = "{SECRET}"',
        TOPIC + f'client."security.protocol" = "SSL"\nclient."ssl.key.pem" = "{SECRET}"',
        TOPIC + f'client."security.protocol" = "https://u:{SECRET}@h"',
        f'[exporters.o]\ntype = "support.programs.exporter_types:refuses"\ntoken = "{SECRET}"',
        f'ssl.key.passwort = "{SECRET}"',
        f'ssl.keystore.key = {{ a = "{SECRET}" }}',
        f'listener.name.plaintext.ssl.key.password = ["{SECRET}"]',
        f'http.listeners = "http://u:{SECRET}@h:1"',
        f'sasl.users.alice.password = "{SECRET}"',
        f'sasl.users.alice.scram-sha-256 = "{SECRET}"',
    ],
)
def test_no_error_shows_a_secret(line: str, write: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(write(line))
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value)


def test_an_override_without_an_equals_sign_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="number 2: an override is written key=value") as refused:
        load_config(overrides=["node.id=2", f"sasl.password {SECRET}"])
    assert SECRET not in str(refused.value)


def test_references_stand_for_files_and_variables_in_every_table(write: Callable[[str], Path], tmp_path: Path) -> None:
    for name, text in (("token", "to-ken-1\n"), ("lines", "a\n b\r\n"), ("key", "s/ecret")):
        (tmp_path / name).write_text(text)
    file = write(f"""
ssl.key.password = "${{env:KEY_PASSWORD}}"
push.log.kafka.client."sasl.password" = "${{file:{tmp_path}/lines}}"
[exporters.otel]
type = "otlp"
headers = {{ authorization = "Bearer ${{file:{tmp_path}/token}}", x = "$${{env:KEY_PASSWORD}}-${{unknown:x}}" }}
[exporters.lake]
type = "landing"
path = "{tmp_path}/${{env:KEY_PASSWORD}}"
[client-metrics.a]
match = ["client_id=${{env:KEY_PASSWORD}}"]
""")
    config = load_config(
        file, environment={"KEY_PASSWORD": "pass word", "FLEETGAUGE_NODE_ID": "${env:KEY_ID}", "KEY_ID": "7"}
    )
    assert (config.ssl_key_password, config.node_id) == ("pass word", 7)
    assert config.push_log_kafka_client == {"sasl.password": "a\n b"}
    assert config.exporters["otel"]["headers.authorization"] == "Bearer to-ken-1"
    assert config.exporters["otel"]["headers.x"] == "$pass word-${unknown:x}"
    assert config.exporters["lake"]["path"] == f"{tmp_path}/pass word"
    assert config.client_metrics["a"]["match"] == "client_id=pass word"
    out = printed(file, "--override", "telemetry.max.bytes=${env:BYTES}", KEY_PASSWORD="pass word", BYTES="1234")
    assert "pass word" not in out
    assert "1234" not in out
    for line in ('ssl.key.password = "${env:KEY_PASSWORD}"', 'telemetry.max.bytes = "${env:BYTES}"', "Bearer ${file:/"):
        assert line in out


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("${file:/nowhere/token}", "${file:/nowhere/token}: there is no such file"),
        ("${file:/nowhere/secrets.properties:password}", "a reference names a whole file, not a key within it"),
        ("${file:token}", "needs the absolute path of a file"),
        ("${file:/dev/zero}", "there is no such file"),
        ("${file:{tmp}/empty}", "/empty} is empty"),
        ("${file:{tmp}/binary}", "is not UTF-8 text"),
        ("${file:{tmp}/large}", "longer than 1048576 bytes"),
        ("${env:NOT_SET}", "${env:NOT_SET} names an environment variable that is not set"),
        ("${env:}", "names an environment variable that is not set"),
        ("${file:/token", "a reference is not closed"),
    ],
)
def test_a_reference_to_nothing_names_the_key_and_what_is_missing(
    reference: str, says: str, write: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    text = f"{SECRET} {reference.replace('{tmp}', str(tmp_path))}"
    file = write(f'[exporters.otel]\ntype = "otlp"\nheaders = {{ authorization = "{text}" }}\n')
    with pytest.raises(ConfigError) as refused:
        load_config(file)
    assert str(refused.value).startswith(f"exporters.otel.headers.authorization ({file}): ")
    assert says in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "line", ["telemetry.max.bytes", "exporters.otel.endpoint", "exporters.otel.timeout.ms", "client-metrics.a.match"]
)
def test_what_a_reference_stands_for_is_in_no_error_whatever_its_key(
    line: str, write: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(SECRET + "://:")
    file = write(f'{line} = "${{file:{tmp_path}/token}}"\nexporters.otel.type = "otlp"\n')
    with pytest.raises(ConfigError) as refused:
        load_config(file)
    assert SECRET not in str(refused.value)


def test_secret_keys_are_known_by_their_names() -> None:
    secret = (
        "client.sasl.password",
        "sasl.jaas.config",
        "ssl.keystore.key",
        "apikey",
        "x.api-key",
        "aws.secret.access.key",
    )
    public = (
        "tls.key.file",
        "batch.max.bytes",
        "sasl.mechanism",
        "sasl.username",
        "ssl.keystore.location",
        "client.id",
    )
    assert [key for key in secret if not is_secret(key)] == []
    assert [key for key in public if is_secret(key)] == []


NAMED_LIKE_SECRETS = """
listeners = "PRIVATE://127.0.0.1:0,A.PRIVATE://127.0.0.1:0"
listener.security.protocol.map = "PRIVATE:SASL_PLAINTEXT,A.PRIVATE:SSL"
listener.name.private.sasl.enabled.mechanisms = "SCRAM-SHA-256"
listener.name."a.private".ssl.client.auth = "required"
listener.name."a.private".ssl.key.password = "hunter2hunter2"
[sasl.users."token.user"]
scram-sha-256 = "CREDENTIAL"
[exporters.otlp-private]
type = "otlp"
endpoint = "http://collector:4317"
headers.x-team = "team-of-mine"
[exporters.headers]
type = "otlp"
endpoint = "http://collector:4318"
[client-metrics.token-service]
metrics = "org.apache.kafka.consumer."
match = ["client_id=orders"]
[client-guard.password-checker]
software = "ours"
action = "note"
[quotas."users/secret"]
request_percentage = 50
"""


def test_names_that_an_operator_chose_make_no_secret(write: Callable[[str], Path]) -> None:
    salt = "salt=MDEyMzQ1Njc4OWFiY2RlZg==,stored_key={0},server_key={0},iterations=4096"
    key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    file = write(NAMED_LIKE_SECRETS.replace("CREDENTIAL", salt.format(key)))
    assert load_config(file).secrets() - {""} == {"hunter2hunter2", "team-of-mine"}
    out = printed(file)
    for line in (
        'listener.name.private.sasl.enabled.mechanisms = "SCRAM-SHA-256"',
        'listener.name.a.private.ssl.client.auth = "required"',
        'listener.name.a.private.ssl.key.password = "[hidden]"',
        'endpoint = "http://collector:4317"',
        'metrics = "org.apache.kafka.consumer."',
    ):
        assert line in out


WITH_REFERENCES = """
ssl.key.password = "${env:ONE}-tail-of-it"
telemetry.max.bytes = "${env:BYTES}"
push.log.kafka.client."sasl.jaas.config" = "required password=${env:TWO};"
[exporters.otel]
type = "otlp"
headers.authorization = "Custom ${env:THREE}"
[exporters.plain]
type = "otlp"
headers = "authorization=Bearer to-ken-4, x-team=to-ken-5"
[exporters.basic]
type = "otlp"
headers.authorization = "basic to-ken-6"
[exporters.topic]
type = "kafka_topic"
bootstrap.servers = "h:1"
topic = "t"
client = "sasl.username=service,sasl.password=to-ken-7"
[exporters.mine]
type = "support.programs.exporter_types:any_keys"
targets = [{ password = "p=${env:EIGHT}" }]
"""


def test_the_parts_of_a_secret_are_hidden_too(write: Callable[[str], Path]) -> None:
    names = ("ONE", "TWO", "THREE", "EIGHT")
    environment = {name: f"reference-{name.lower()}" for name in names} | {"BYTES": "123456"}
    config = load_config(write(WITH_REFERENCES), environment=environment)
    line = " ".join((*(environment[name] for name in names), *(f"to-ken-{number}" for number in (4, 5, 6, 7))))
    assert hide(line, config.secrets()) == " ".join([HIDDEN] * 8)
    assert hide("reference-one-tail-of-it", config.secrets()) == HIDDEN, "the whole goes before its parts"
    assert hide("service 123456", config.secrets()) == "service 123456"
    job: Job = from_line(to_line(Job.of(config)).decode())
    of_exporters = hide(line, job.logging.secrets)
    assert of_exporters == " ".join(["reference-one", *[HIDDEN] * 7]), "what is no exporter's is not handed on"


def test_a_reference_to_a_secret_that_changed_is_told_of_by_its_key_alone(write: Callable[[str], Path]) -> None:
    file = write('[exporters.otel]\ntype = "otlp"\nheaders.authorization = "Custom ${env:T}"\n')
    old, new = (load_config(file, environment={"T": text}) for text in ("first-token", "second-token"))
    with structlog.testing.capture_logs() as lines:
        log_reread(old, new, changeable_fields(old, new))
    assert lines[0]["keys"] == ["exporters.otel.headers.authorization"]
    assert "-token" not in str(old.model_dump(exclude={*NOT_FOR_PLUGINS})), "nor is it handed to plugins"


def test_a_secret_of_any_letters_is_in_no_log_line(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("p\u00e4sswort-1", 'quote"back\\slash-1', "two\nlines-1", "\U0001f511-key-1")
    for form in ("json", "human"):
        written = io.StringIO()
        monkeypatch.setattr(sys, "stderr", written)
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
        configure_logging("info", form, secrets)
        try:
            for secret in secrets:
                structlog.get_logger("some").info(f"refused: {secret}", keys={"token": secret}, error=repr([secret]))
        finally:
            structlog.reset_defaults()
        lines = written.getvalue()
        assert lines.count(HIDDEN) == 3 * len(secrets), lines
        for part in ("sswort-1", "slash-1", "lines-1", "-key-1"):
            assert part not in lines


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            '[exporters.o]\ntype = "otlp"\nendpoint = "ADDRESS"',
            "without user and password in it; use headers.authorization",
        ),
        (
            '[exporters.o]\ntype = "otlp"\nprotocol = "http/protobuf"\nendpoint = "ADDRESS/v1"',
            "without user and password in it; use headers.authorization",
        ),
        (
            '[exporters.o]\ntype = "self_metrics"\nendpoint = "ADDRESS"',
            "without user and password in it; use headers.authorization",
        ),
        ('http.listeners = "ADDRESS"', "without user and password in it"),
        ('listeners = "ADDRESS"', "without user and password in it"),
    ],
)
def test_an_address_with_a_password_is_refused_with_the_reason(
    line: str, says: str, write: Callable[[str], Path]
) -> None:
    for user in ("user:pass-word-1", "user:pass/word-1"):
        with pytest.raises(ConfigError, match=says) as refused:
            load_config(write(line.replace("ADDRESS", f"http://{user}@h:4317")))
        assert "word-1" not in str(refused.value)
    for address in ("http://h:1/?x=1", "ftp://h:x"):
        with pytest.raises(ConfigError) as refused:
            load_config(write(line.replace("ADDRESS", address)))
        assert "password" not in str(refused.value)


def test_urls_lose_users_and_secret_parameters_and_nothing_else() -> None:
    for url in ("http://h/a@b?x=1", "s3://bucket/a?region=eu&endpoint_override=h%3A9000", "C:\\landing", "/a b/c@d"):
        assert without_credentials(url) == url
        assert shown("path", url) == url
    assert shown("path", f"s3://A:{SECRET} x/y@b?sig={SECRET} '\"&a=1") == f"s3://b?sig={HIDDEN}&a=1"
    assert shown("list", [{"password": SECRET, "url": f"http://{SECRET}@h"}]) == [
        {"password": HIDDEN, "url": "http://h"}
    ]


def test_a_text_is_rid_of_secrets_in_every_form_that_it_may_have_there() -> None:
    secret = 'quote"back\\slash\n'
    for text in (secret, repr(secret), json.dumps({"x": secret}), json.dumps(repr(secret))):
        assert "slash" not in hide(text, [secret])
    assert hide("port 1000", ["1000"]) == "port 1000", "what is short may stand for something else"
