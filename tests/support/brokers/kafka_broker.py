"""A real Apache Kafka broker on loopback: broker and controller in one process, on ports that were free."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from support.brokers.kafka_jars import kafka_jars
from support.built import BUILD_WITHIN_S
from support.jvm import QUICK, quick_options
from support.ports import free_ports
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

STARTED = "Kafka Server started"
MISSING = ", ".join(f"a real broker needs {program}" for program in ("java", "mvn") if shutil.which(program) is None)
"""Why there can be no broker; empty where there can."""
NODE_ID = 1
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"

# The broker's words on stdout, in the log library that the version comes with.
_LOG4J2 = """status = warn
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
"""
_LOG4J1 = """log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def with_the_test_run() -> list[str]:
    """Words before a command that end its process with ours, even by SIGKILL; none where util-linux is missing."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def quick_jvm(version: str) -> list[str]:
    """The options with which brokers and tools of a version start quickly."""

    def run(option: str) -> None:
        with (
            tempfile.TemporaryDirectory() as made,
            KafkaBroker(Path(made) / "kafka", version, jvm=(*QUICK, option)) as broker,
        ):
            assert broker.process is not None
            broker.process.terminate()
            broker.process.wait(BUILD_WITHIN_S)  # writes the archive, which takes minutes on a busy machine

    return quick_options(f"kafka-{version}", run, kafka_jars(version))


class KafkaBroker:
    """One broker; may be stopped and started again on the same data. Its log is `<directory>/broker.log`, whose end
    a wait in vain prints while the broker should run.

    Args:
        directory: for its data, configuration and log.
        version: of Apache Kafka.
        properties: of server.properties, beside or in place of the usual ones.
        listeners: further ones, security protocols by name; `ports` has where they are.
        jars: beside Kafka's own.
        heap: as Java takes it.
        jvm: the broker's options; those of `quick_jvm` when None, which no broker that is measured should have.
    """

    def __init__(
        self,
        directory: Path,
        version: str,
        *,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        jars: Sequence[Path] = (),
        heap: str = "512m",
        jvm: Sequence[str] | None = None,
    ) -> None:
        self.version = version
        self.directory = directory
        self.log = directory / "broker.log"
        self.port, self.controller_port, self.jmx_port = free_ports(3)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.ports = dict(zip(listeners or {}, free_ports(len(listeners or {})), strict=True))
        self.process: subprocess.Popen[bytes] | None = None
        self._already_started = 0
        self._heap = heap
        self._jvm = quick_jvm(version) if jvm is None else list(jvm)
        self._tool_jvm = self._jvm if jvm is None else QUICK
        self._tools_class_path = f"{kafka_jars(version)}/*"
        self._class_path = ":".join([self._tools_class_path, *map(str, jars)])
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "server.properties"
        lines = {**self._defaults(), **(properties or {})}
        for name, protocol in (listeners or {}).items():
            lines["listeners"] += f",{name}://127.0.0.1:{self.ports[name]}"
            lines["advertised.listeners"] += f",{name}://127.0.0.1:{self.ports[name]}"
            lines["listener.security.protocol.map"] += f",{name}:{protocol}"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        (directory / "log4j2.properties").write_text(_LOG4J2)
        (directory / "log4j.properties").write_text(_LOG4J1)

    def _defaults(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Formats the data directory the first time, starts the broker and waits until it serves."""
        self.launch()
        self.wait_until_started()

    def wait_until_started(self) -> None:
        """Waits until the broker that was launched last serves."""
        wait_for(self._starts, "the broker to serve", until=lambda starts: starts > self._already_started)

    def _starts(self) -> int:
        assert self.process is not None
        assert self.process.poll() is None, f"the broker ended: {self.output()}"
        return self.output_all().count(STARTED)

    def launch(self) -> None:
        """Starts the broker without waiting for it."""
        if not (self.directory / "data").exists():
            self.tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._config))
        command = [
            *with_the_test_run(),
            "java",
            f"-Xms{self._heap}",
            f"-Xmx{self._heap}",
            *self._jvm,
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            f"-Dlog4j.configuration=file:{self.directory / 'log4j.properties'}",
            *self._jmx_options(),
            *("-cp", self._class_path, "kafka.Kafka", str(self._config)),
        ]
        self._already_started = self.output_all().count(STARTED)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        follow(self.log)

    def _jmx_options(self) -> list[str]:
        remote = "-Dcom.sun.management.jmxremote"
        return [
            remote,
            f"{remote}.port={self.jmx_port}",
            f"{remote}.rmi.port={self.jmx_port}",
            f"{remote}.host=127.0.0.1",
            f"{remote}.authenticate=false",
            f"{remote}.ssl=false",
            "-Djava.rmi.server.hostname=127.0.0.1",
        ]

    def tool(self, main_class: str, *arguments: str, timeout_s: float = PATIENCE_S) -> str:
        """What one of Kafka's own tools prints; raises CalledProcessError when it fails."""
        done = subprocess.run(
            ["java", "-Xmx128m", *self._tool_jvm, "-cp", self._tools_class_path, main_class, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=self.directory,
            env={key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")},
        )
        assert done.returncode == 0, f"{main_class} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def subscribe(self, *, name: str = "everything", metrics: str = "*", interval_ms: int = 1000) -> None:
        """Makes or changes a client metrics subscription with kafka-client-metrics."""
        self.tool(
            *("org.apache.kafka.tools.ClientMetricsCommand", "--bootstrap-server", self.bootstrap, "--alter"),
            *("--name", name, "--metrics", metrics, "--interval", str(interval_ms)),
        )

    def mbean(self, name: str) -> dict[str, str]:
        """The attributes of one MBean of the broker, read with Kafka's JmxTool, which fails when it is not there."""
        printed = self.tool(
            *("org.apache.kafka.tools.JmxTool", "--object-name", name, "--one-time", "--report-format", "properties"),
            *("--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self.jmx_port}/jmxrmi"),
        )
        pairs = (line.split("=") for line in printed.splitlines() if line.startswith(name))
        return {parts[-2].rpartition(":")[2]: parts[-1] for parts in pairs}

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.terminate()
        wait_for(self.process.poll, "the broker to end", until=lambda code: code is not None)
        unfollow(self.log)
        return self.process.wait()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        unfollow(self.log)

    def output_all(self) -> str:
        """Everything that the broker logged so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def output(self) -> str:
        """The end of what the broker logged."""
        return self.output_all()[-8000:]
