"""Real clients of several libraries and versions at one node, and what their own logs say of their telemetry.

Each process holds the clients of one library and version: of Java a producer, a consumer and an admin client, of
librdkafka a producer and a consumer, of franz-go one client. They are fetched and built once.
"""

import base64
import operator
import os
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from support.built import BUILD_WITHIN_S, ROOT, built
from support.clients.java_clients import clients_jars, compiled_java
from support.waiting import PATIENCE_S, follow, ticking, unfollow, wait_for

SOURCES = ROOT / "tests" / "kafka"
REQUEST_TIMEOUT_MS = 30_000
"""Kafka's default; a client that waits longer for an answer cuts the connection."""
LIBRDKAFKA_WAITS_FOR_MINUTES = r"scheduling FSM after \d{9} microseconds, state = PushScheduled"
"""A line of its log: no push is on its way, with which it would send no last one when it is closed."""


@dataclass(frozen=True)
class Client:
    """One client instance, as its log shows it."""

    name: str
    process: "ClientProcess"
    marker: str

    def lines(self) -> list[str]:
        """The lines of the log that are this client's."""
        return [line for line in self.process.log_lines() if self.marker in line]

    def instance_id(self) -> str:
        """The id that the client says it has, in Kafka's form; empty while it has none."""
        found = re.findall(self.process.instance_id_text, "\n".join(self.lines()))
        return self.process.in_kafkas_form(found[-1]) if found else ""

    def acknowledged(self) -> int:
        """Pushes that the client saw answered without an error."""
        return self.process.count_acknowledged(self.lines())

    def own_count(self) -> int:
        """What the client counts by itself and sends as the deltas of `counted_metric`; 0 before it says so."""
        prefix = self.process.own_count_text
        return max((int(line.split()[1]) for line in self.process.log_lines() if line.startswith(prefix)), default=0)

    def says_off(self) -> list[str]:
        """What the client says of having switched its telemetry off, before it was asked to end."""
        return [line for line in self.lines() if re.search(self.process.off_text, line)]

    def was_cut_in_mid_request(self) -> bool:
        """True if a connection ended under a telemetry request of this client: no broker can keep that from it."""
        return any(re.search(r"Cancelled in-flight (PUSH_TEL|GET_TEL)", line) for line in self.lines())


class ClientProcess(ABC):
    """A process with real clients; ends when it is told to, or with its standard input."""

    library: ClassVar[str]
    off_text: ClassVar[str]
    instance_id_text: ClassVar[str]
    counted_metric: ClassVar[str] = ""
    """A sum that a client of this process also prints as `own_count_text` and a number; empty where none does."""
    own_count_text: ClassVar[str] = ""

    def __init__(self, version: str, bootstrap: str, directory: Path) -> None:
        self.version = version
        self.log = directory / f"{self.prefix}.log"
        arguments, environment = self.command(bootstrap)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=log, stderr=log, env={**os.environ, **environment}
            )
        follow(self.log)

    @property
    def prefix(self) -> str:
        """How the client ids begin."""
        return f"{self.library}-{self.version}"

    @abstractmethod
    def command(self, bootstrap: str) -> tuple[Sequence[str], dict[str, str]]:
        """The command line, and what it needs in its environment; fetches and builds what is missing."""

    @property
    @abstractmethod
    def clients(self) -> tuple[Client, ...]:
        """The clients in it that push."""

    @abstractmethod
    def count_acknowledged(self, lines: list[str]) -> int:
        """Pushes that were answered without an error, by the log."""

    @staticmethod
    def in_kafkas_form(instance_id: str) -> str:
        """The library's form of an id in Kafka's: URL-safe base64 without padding."""
        return instance_id

    def log_lines(self) -> list[str]:
        """The log until now."""
        return self.log.read_text(errors="replace").splitlines()

    def ask_to_close(self) -> None:
        """Has the clients closed as an application closes them."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> None:
        """Waits for the end that was asked for."""
        code = wait_for(self.process.poll, f"the end of {self.prefix}", until=lambda code: code is not None)
        unfollow(self.log)
        assert (code, self.log_lines()[-1:]) == (0, ["closed"]) or "closed" in self.log_lines(), self.tail()

    def kill(self) -> None:
        """Ends the process, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        unfollow(self.log)
        if self.process.stdin is not None:
            self.process.stdin.close()

    def tail(self) -> str:
        """The end of the log, for a failing test."""
        return "\n".join(self.log_lines()[-40:])


class JavaProcess(ClientProcess):
    """kafka-clients. Its log tells a client's lines by the name of the thread that does its network work."""

    library = "java"
    # ClientTelemetryReporter and ClientTelemetryUtils, in the words of 3.7 to 4.4. An interval of 2^31-1 ms is how it
    # switches itself off. What timeToNextUpdate says of a terminating push is no switching off: it says it at a close.
    off_text = (
        r"disabling telemetry(?! for further)|disabled telemetry|hence disable telemetry|telemetry, disable telemetry"
        r"|collection is disabled|ntervalMs: 2147483647|update to 2147483647"
    )
    instance_id_text = r"registered with client instance id: (\S{22})"
    counted_metric = "org.apache.kafka.producer.request.total"
    own_count_text = "requests "

    def command(self, bootstrap: str) -> tuple[Sequence[str], dict[str, str]]:
        jars = clients_jars(self.version)
        classes = compiled_java("TelemetryClients", jars)
        return [
            *("java", "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.telemetry.internals.KafkaMetricsCollector=info",
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.telemetry=debug",
            *("-cp", f"{classes}:{jars}/*", "TelemetryClients", bootstrap, self.prefix, str(REQUEST_TIMEOUT_MS)),
        ], {}

    @property
    def clients(self) -> tuple[Client, ...]:
        markers = {"producer": f"network-thread | {self.prefix}-producer]", "consumer": "[consumer]"}
        if self.version.startswith("4"):  # older admin clients ask for a subscription at most
            markers["admin"] = f"admin-client-thread | {self.prefix}-admin]"
        return tuple(Client(f"{self.prefix}-{role}", self, marker) for role, marker in markers.items())

    def count_acknowledged(self, lines: list[str]) -> int:
        return sum("from PUSH_IN_PROGRESS to PUSH_NEEDED" in line for line in lines)


class LibrdkafkaProcess(ClientProcess):
    """librdkafka by its Python binding: the one beside this file's interpreter, or another version."""

    library = "librdkafka"
    NEWEST = "newest"
    off_text = r"Stopping telemetry|state to TERMINATED"
    instance_id_text = r"instance id changed from \S+ to (\S{22})"

    def command(self, bootstrap: str) -> tuple[Sequence[str], dict[str, str]]:
        program = str(Path(__file__).with_name("rdkafka_clients.py"))
        environment = {} if self.version == self.NEWEST else {"PYTHONPATH": str(_confluent_kafka(self.version))}
        return [sys.executable, "-u", program, bootstrap, self.prefix], environment

    @property
    def clients(self) -> tuple[Client, ...]:
        roles = ("producer", "consumer")
        return tuple(Client(f"{self.prefix}-{role}", self, f"|{self.prefix}-{role}#") for role in roles)

    def count_acknowledged(self, lines: list[str]) -> int:
        return sum("PushTelemetryRequest succeeded" in line for line in lines)

    @staticmethod
    def in_kafkas_form(instance_id: str) -> str:
        return instance_id.replace("+", "-").replace("/", "_")


class FranzGoProcess(ClientProcess):
    """franz-go, which logs errors of pushes, and no success but that an answer was read."""

    library = "franz-go"
    off_text = r"exiting metrics loop|perhaps a franz-go bug|panic:"
    instance_id_text = r"client_instance_id: ([0-9a-f]{32})"
    counted_metric = "fleetgauge.test.pings"
    own_count_text = "pings "
    _REFUSED = r"client metrics (was sent|payload was|has an outdated|compression is|received an unknown)|" + off_text

    def command(self, bootstrap: str) -> tuple[Sequence[str], dict[str, str]]:
        return [str(franz_go(self.version)), bootstrap, self.prefix], {}

    @property
    def clients(self) -> tuple[Client, ...]:
        return (Client(self.prefix, self, ""),)

    def count_acknowledged(self, lines: list[str]) -> int:
        answered = sum("read PushTelemetry" in line and "err: <nil>" in line for line in lines)
        return answered - sum(bool(re.search(self._REFUSED, line)) for line in lines)

    @staticmethod
    def in_kafkas_form(instance_id: str) -> str:
        return base64.urlsafe_b64encode(bytes.fromhex(instance_id)).rstrip(b"=").decode()


VERSIONS: tuple[tuple[type[ClientProcess], str], ...] = (
    (JavaProcess, "3.7.2"),
    (JavaProcess, "4.4.0"),
    (LibrdkafkaProcess, "2.5.3"),
    (LibrdkafkaProcess, LibrdkafkaProcess.NEWEST),
    (FranzGoProcess, "1.19.0"),
    (FranzGoProcess, "1.22.2"),
)
"""Each library in its oldest version with KIP-714 that is served and does not crash by itself, and in its newest."""


def wait_until(missing: Callable[[], object], what: str, within_s: float = 0.0) -> None:
    """Waits until `missing()` gives nothing more to wait for: None, or an empty list.

    Args:
        missing: what is still missing.
        what: what is waited for.
        within_s: how long clients may take by themselves [s], where that is more than the patience.
    """
    for _ in ticking(within_s - PATIENCE_S):
        if not missing():
            return
    wait_for(missing, what, until=operator.not_)


def _confluent_kafka(version: str) -> Path:
    """The folder with that version of the binding, to be put first on a process's path."""

    def install(target: Path) -> None:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        command = [*pip, "--target", str(target), f"confluent-kafka=={version}"]
        subprocess.run(command, check=True, timeout=BUILD_WITHIN_S)

    return built(f"confluent-kafka-{version}", install, version, sys.version)


def franz_go(version: str, program: str = "client") -> Path:
    """A program of `tests/kafka/franz-go`, built with that version; its checksums are kept beside the sources.

    Args:
        version: of franz-go.
        program: `client`, or `worker` or `roundtrip`, which have folders of their own.
    """
    modules = SOURCES / "franz-go"
    source = modules / ("main.go" if program == "client" else f"{program}/main.go")
    requirements = {name: modules / f"franz-go-{version}.{name}" for name in ("mod", "sum")}

    def build(target: Path) -> None:
        shutil.copy(source, target)
        for name, file in requirements.items():
            shutil.copy(file, target / f"go.{name}")
        environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
        command = ["go", "build", "-trimpath", "-o", program, "."]
        subprocess.run(command, cwd=target, env=environment, check=True, timeout=BUILD_WITHIN_S)

    return built(f"franz-go-{version}-{program}", build, source, *requirements.values()) / program


def missing_tools() -> str:
    """Why these clients cannot be had here; empty if they can."""
    missing = [tool for tool in ("java", "javac", "mvn", "go") if shutil.which(tool) is None]
    return f"needs {', '.join(missing)} for the real clients" if missing else ""


if __name__ == "__main__":
    for java in ("3.7.2", "4.4.0"):
        print(clients_jars(java))
    print(_confluent_kafka("2.5.3"))
    for go in ("1.19.0", "1.22.2"):
        print(franz_go(go))
