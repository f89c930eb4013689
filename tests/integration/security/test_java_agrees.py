"""The JDK as the oracle of subjects, and Kafka's Java client over SASL_SSL."""

import contextlib
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.built import ROOT
from support.certificates import Authority
from support.clients.java_clients import clients_jars
from support.programs.node import Node, credential_lines, run_cli
from support.waiting import PATIENCE_S, follow, unfollow

from fleetgauge.wire.tls.distinguished_name import subject_of

pytestmark = pytest.mark.integration

VERSION = "4.3.1"
PASSWORD = "correct horse, battery = staple"

SUBJECTS = [
    "/CN=simple",
    "/C=DE/ST=Hessen/L=Frankfurt/street=Zeil 1/O=Example/OU=a/OU=b/CN=orders",
    "/DC=com/DC=example/UID=u7/CN=orders",
    '/O=Example, Inc. <x>;#1/CN=a\\+b=c"d\\\\e',
    "/CN=#hash",
    "/CN=  two before, two behind  ",
    "/CN=Müller Straße 你好 😀",
    "/O=x+OU=y+CN=z/CN=second",
    "/emailAddress=a@b.example/serialNumber=77/CN=numbers",
    "/title=T/GN=G/SN=S/initials=I/dnQualifier=Q/pseudonym=P/CN=others",
    "/CN=" + "long" * 16,
]


def need_java() -> None:
    if shutil.which("java") is None:
        pytest.skip("needs Java 17: make java says how to get it")


def test_every_subject_is_written_as_the_jdk_writes_it(tmp_path: Path) -> None:
    need_java()
    authority = Authority(tmp_path)
    files = [authority.issue(f"c{number}", subject).certificate for number, subject in enumerate(SUBJECTS)]
    source = str(ROOT / "tests" / "kafka" / "Subjects.java")
    printed = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", source, *map(str, files)],
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    ).stdout.decode()
    expected = printed.removesuffix("\n").split("\n")
    ours = [subject_of(ssl.PEM_cert_to_DER_cert(file.read_text())) for file in files]
    assert ours == expected
    assert len(set(ours)) == len(SUBJECTS)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Authority]]:
    need_java()
    directory = tmp_path_factory.mktemp("node")
    authority = Authority(directory / "authority")
    config = f"""
listener.security.protocol.map = "EXTERNAL:SASL_SSL"
ssl.keystore.location = "{authority.issue("server", "/CN=localhost").keystore}"
sasl.enabled.mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
connections.max.reauth.ms = 16000
[client-metrics.everything]
metrics = "*"
interval.ms = 200
{credential_lines("alice", PASSWORD)}
"""
    with Node(directory, "listeners=EXTERNAL://127.0.0.1:0", config=config) as node:
        yield node, authority


def properties(node: Node, authority: Authority, mechanism: str, password: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f"""
bootstrap.servers=127.0.0.1:{node.port}
client.id=java-{mechanism}
enable.idempotence=false
security.protocol=SASL_SSL
sasl.mechanism={mechanism}
sasl.jaas.config=org.apache.kafka.common.security.{module} required username="alice" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={authority.certificate}
"""


@contextlib.contextmanager
def lonely_producer(directory: Path, settings: str) -> Iterator[subprocess.Popen[str]]:
    file = directory / "client.properties"
    file.write_text(settings)
    source = str(ROOT / "tests" / "kafka" / "LonelyProducer.java")
    jars = f"{clients_jars(VERSION)}/*"
    written = directory / "client.log"
    with written.open("wb") as log:
        process = subprocess.Popen(
            ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", jars, source, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    watchdog = threading.Timer(2 * PATIENCE_S, process.kill)
    watchdog.start()
    follow(written)
    try:
        yield process
    finally:
        unfollow(written)
        watchdog.cancel()
        process.kill()
        process.communicate()


def kept(status: dict[str, Any]) -> int:
    """How many more sessions were renewed than ended by time: a busy machine may be late with a renewal, and its client
    then begins another session."""
    found = status["connections"][0]
    return int(found["successful_reauthentications"]) - int(found["closed"].get("session_expired", 0))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_java_client_over_sasl_ssl_pushes_under_its_own_name_and_renews_its_session(
    secured: tuple[Node, Authority], tmp_path: Path, mechanism: str
) -> None:
    node, authority = secured
    before = kept(node.status())
    with lonely_producer(tmp_path, properties(node, authority, mechanism, PASSWORD)) as process:
        assert process.stdout is not None
        instance_id = process.stdout.readline().strip()
        assert len(instance_id) == 22, (tmp_path / "client.log").read_text()[-2000:]
        node.wait_for(
            lambda status: kept(status) > before + 1,
            what="a session to be renewed twice",
        )
        output = run_cli("log", "tail", "--log-dirs", str(node.data), "-n", "200", "--format", "json").stdout
        records = [json.loads(line) for line in output.splitlines()]
        mine = [record for record in records if record["client_instance_id"] == instance_id]
        assert mine, output[-2000:]
        assert {(record["principal"], record["client_id"]) for record in mine} == {("User:alice", f"java-{mechanism}")}
    mutes = {"INVALID_RECORD", "INVALID_REQUEST"}
    assert not mutes & set(node.status()["telemetry"]["push_answers"])


def test_a_java_client_with_a_wrong_password_is_told_so_in_kafkas_words(
    secured: tuple[Node, Authority], tmp_path: Path
) -> None:
    node, authority = secured
    with lonely_producer(tmp_path, properties(node, authority, "PLAIN", "wrong")) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "Authentication failed: Invalid username or password"
