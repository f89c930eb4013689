"""`fleetgauge doctor` without brokers: the machine, the configuration and the destinations."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
from support.waiting import PATIENCE_S
from typer.testing import CliRunner

from fleetgauge.cli import app
from fleetgauge.cli.node.doctor.authorizer import check_authorizer
from fleetgauge.cli.node.doctor.brokers import _topic, check_brokers
from fleetgauge.cli.node.doctor.finding import Finding, Level
from fleetgauge.cli.node.doctor.gateway import check_gateway
from fleetgauge.cli.node.doctor.machine import check_disk, check_ports, check_writable
from fleetgauge.cli.node.doctor.run import Process, _clusters
from fleetgauge.node.config import ServiceConfig, load_config

PROCESSES: Final[tuple[Process, ...]] = ("serve", "export")


KEYS: Final = ("listeners", "http.listeners")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def config(tmp_path: Path, *overrides: str) -> ServiceConfig:
    return load_config(None, overrides=[f"log.dirs={tmp_path / 'data'}", *overrides])


def run(*arguments: str) -> tuple[int, dict[str, Finding]]:
    done = CliRunner().invoke(app, ["doctor", "--format", "json", *arguments])
    found = [json.loads(line) for line in done.output.splitlines()]
    return done.exit_code, {each["check"]: Finding(**(each | {"level": Level(each["level"])})) for each in found}


def test_a_good_configuration_has_no_error(tmp_path: Path) -> None:
    addresses = ["--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "http.listeners=http://127.0.0.1:0"]
    code, found = run("--override", f"log.dirs={tmp_path}", *addresses)
    assert code == 0
    assert not [each for each in found.values() if each.level is Level.ERROR]
    assert found["libraries"].level is Level.OK
    assert "pyarrow " in found["libraries"].detail
    assert found["fleetgauge"].detail.startswith(f"{version('fleetgauge')} (")
    assert found[f"log.dirs {tmp_path}"].detail == "writable"


def test_a_wrong_configuration_is_one_error_and_what_does_not_depend_on_it_is_still_checked() -> None:
    code, found = run("--override", "node.id=-1")
    assert code == 1
    assert "node.id" in found["configuration"].detail
    assert {"python", "clock"} <= set(found)


def test_a_port_that_another_process_has_is_an_error_with_its_address(tmp_path: Path, taken: int) -> None:
    http = f"http://127.0.0.1:{taken}"
    overrides = (f"listeners=PLAINTEXT://127.0.0.1:{taken}", f"http.listeners={http}")
    found = list(check_ports(config(tmp_path, *overrides), serves=True))
    assert [(each.check, each.level) for each in found] == [
        (f"port PLAINTEXT://127.0.0.1:{taken}", Level.ERROR),
        (f"port {http}", Level.ERROR),
    ]
    assert "ss -ltnp" in found[0].remedy
    assert [each.remedy.endswith(f" in {key}.") for each, key in zip(found, KEYS, strict=True)] == [True, True]


def test_an_export_needs_no_listener_and_its_page_needs_its_port(tmp_path: Path, taken: int) -> None:
    page = ("exporters.page.type=prometheus", f"exporters.page.listen=127.0.0.1:{taken}")
    found = list(check_ports(config(tmp_path, "http.listeners=", *page), serves=False))
    assert [(each.check, each.level) for each in found] == [
        (f"port 127.0.0.1:{taken} (exporters.page)", Level.ERROR),
    ]


def test_a_port_is_free_whose_last_connection_was_closed_a_moment_ago(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a node's listener
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()  # the listener's side waits in TIME_WAIT
    overrides = (f"listeners=PLAINTEXT://127.0.0.1:{port}", "http.listeners=")
    assert [each.level for each in check_ports(config(tmp_path, *overrides), serves=True)] == [Level.OK]


def test_an_address_of_another_machine_is_an_error(tmp_path: Path) -> None:
    overrides = ("listeners=PLAINTEXT://192.0.2.1:9092", "http.listeners=")
    (found,) = check_ports(config(tmp_path, *overrides), serves=True)
    assert found.level is Level.ERROR


@pytest.mark.parametrize(
    ("overrides", "level"),
    [
        ((), Level.OK),
        (("push.log.retention.bytes=9000000000000000",), Level.WARNING),
        (("push.log.min.free.bytes=9000000000000000",), Level.ERROR),
    ],
)
def test_the_disk_must_hold_what_the_log_may_take(tmp_path: Path, overrides: tuple[str, ...], level: Level) -> None:
    small = ("push.log.retention.bytes=1048576", "dead.letter.retention.bytes=1048576", *overrides)
    found = {each.check: each for each in check_disk(config(tmp_path, *small), keeps_log=True)}
    assert found[f"disk of {tmp_path}"].level is level


def test_without_an_embedded_log_its_size_does_not_count(tmp_path: Path) -> None:
    checked = config(tmp_path, "push.log.retention.bytes=9000000000000000", "dead.letter.retention.bytes=1048576")
    assert {each.level for each in check_disk(checked, keeps_log=False)} == {Level.OK}


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert check_writable("x", tmp_path / "file" / "data").level is Level.ERROR


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_of_another_user_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "install -d" in check_writable("x", tmp_path / "data").remedy


def test_a_receiver_that_is_down_is_an_error_that_names_the_endpoint(tmp_path: Path) -> None:
    with socket.socket() as bound:  # no other process gets the port, and nothing listens
        bound.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{bound.getsockname()[1]}"
        options = ("exporters.collector.type=otlp", f"exporters.collector.endpoint={endpoint}", f"log.dirs={tmp_path}")
        code, found = run(*(word for option in options for word in ("--override", option)))
    collector = found["exporters.collector (otlp)"]
    assert code == 1
    assert collector.level is Level.ERROR
    assert endpoint in collector.detail


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"\0\0\0\x06\0\0\0\0\0\0",
        b"\0\0\0\xff\0",
    ],
    ids=["closed", "HTTP", "TLS alert", "cut off", "short"],
)
def test_what_is_no_broker_behind_a_gateway_is_an_error(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reply() -> None:
            with server.accept()[0] as connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        (found,) = check_gateway(load_config(overrides=[f"gateway.broker=127.0.0.1:{server.getsockname()[1]}"]))
        thread.join(PATIENCE_S)
    assert found.level is Level.ERROR
    assert "gateway.security.protocol" in found.remedy


def test_a_gateway_without_its_broker_is_told_which_key_is_missing() -> None:
    (found,) = check_gateway(load_config())
    assert (found.level, found.detail.split(" ")[0]) == (Level.ERROR, "gateway.broker:")


def test_a_warning_without_a_remedy_is_no_finding() -> None:
    with pytest.raises(ValueError, match="have a remedy"):
        Finding(check="x", level=Level.WARNING, detail="y")
    with pytest.raises(ValueError, match="only those"):
        Finding(check="x", level=Level.OK, detail="y", remedy="z")


def test_names_from_outside_command_no_terminal() -> None:
    done = CliRunner().invoke(app, ["doctor", "--override", "log.dirs=/tmp/\x1b[31mred\n"])
    assert "\x1b" not in done.output


class StateTopics:
    """A cluster with a topic, as kafka-python's admin client describes it."""

    def __init__(self, operations: Sequence[str], partitions: int) -> None:
        self._described = {
            "error_code": 0,
            "authorized_operations": list(operations),
            "partitions": [{"partition_index": number} for number in range(partitions)],
        }

    def request(self, request: Callable[[Any], Any]) -> Any:
        return request(self)

    def describe_topics(self, topics: Sequence[str]) -> list[dict[str, Any]]:
        return [self._described]


@pytest.mark.parametrize(
    ("lacking", "partitions", "problem"),
    [
        ((), 1, ""),
        (("WRITE", "DESCRIBE_CONFIGS"), 1, "the principal lacks DESCRIBE_CONFIGS, WRITE"),
        ((), 3, "3 partitions; the state needs exactly one"),
    ],
)
def test_the_topic_of_the_state_needs_its_rights_and_one_partition(
    tmp_path: Path, lacking: tuple[str, ...], partitions: int, problem: str
) -> None:
    servers = "push.log.kafka.bootstrap.servers=b:9092"
    ((use,),) = (each.topics for each in _clusters(config(tmp_path, "state.store=kafka", servers), "serve"))
    assert (use.topic, use.transactional_id, use.creates) == ("fleetgauge-state", "fleetgauge-state", True)
    allowed = {"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER"} - {*lacking}
    found = list(_topic(StateTopics(sorted(allowed), partitions), use))  # type: ignore[arg-type]
    assert [each.detail for each in found if each.level is Level.ERROR] == ([problem] if problem else [])
    assert {each.check for each in found} == {"topic fleetgauge-state"}


def test_an_export_uses_no_topic_of_the_state(tmp_path: Path) -> None:
    servers = "push.log.kafka.bootstrap.servers=b:9092"
    kafka = config(tmp_path, "state.store=kafka", "push.log.type=kafka", servers)
    names = [[use.topic for each in _clusters(kafka, process) for use in each.topics] for process in PROCESSES]
    assert names == [["fleetgauge-pushes", "fleetgauge-state"], ["fleetgauge-pushes"]]


def test_a_setting_that_only_librdkafka_has_is_no_error(tmp_path: Path) -> None:
    """The Admin API is asked by kafka-python, which has neither keystores nor OAUTHBEARER."""
    servers = "push.log.kafka.bootstrap.servers=b:9092"
    ciphers = "push.log.kafka.client.ssl.cipher.suites=ECDHE-RSA-AES256-GCM-SHA384"
    (used,) = _clusters(config(tmp_path, "push.log.type=kafka", servers, ciphers), "serve")
    (found,) = check_brokers(used)
    assert found.level is Level.SKIPPED
    assert "push.log.kafka.client.*: ssl.cipher.suites is not supported" in found.detail


def test_the_remedy_of_a_small_disk_names_what_takes_the_room(tmp_path: Path) -> None:
    huge = config(tmp_path, "dead.letter.retention.bytes=9000000000000000")
    found = {each.check: each for each in check_disk(huge, keeps_log=False)}
    assert "dead.letter.retention.bytes" in found[f"disk of {tmp_path}"].remedy
    assert "push log" not in found[f"disk of {tmp_path}"].detail


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], []),
        (["authorizer.class.name=standard"], ["warning"]),
        (["authorizer.class.name=standard", "acls.a.principals=User:a", "acls.a.operations=Describe"], ["warning"]),
        (["authorizer.class.name=standard", "acls.a.principals=User:a", "acls.a.operations=AlterConfigs"], ["ok"]),
        (["authorizer.class.name=standard", "super.users=User:a"], ["ok"]),
        (["authorizer.class.name=standard", "allow.everyone.if.no.acl.found=true"], ["ok"]),
    ],
)
def test_an_authorizer_that_lets_nobody_change_anything_is_a_warning(
    tmp_path: Path, overrides: list[str], expected: list[str]
) -> None:
    assert [each.level for each in check_authorizer(config(tmp_path, *overrides))] == expected
