"""A Kafka broker of the time before KRaft and KIP-714, with its ZooKeeper, on loopback."""

import socket
import subprocess
from pathlib import Path
from typing import Self

from support.brokers.kafka_broker import with_the_test_run
from support.brokers.kafka_jars import kafka_jars
from support.ports import free_ports
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

VERSION = "2.8.2"
_LOG4J = """log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class ZooKeeperKafka:
    """One broker, node 1; `port` is where it listens."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, self._zookeeper_port = free_ports(2)
        self._directory = directory
        self._processes: dict[Path, subprocess.Popen[bytes]] = {}
        self.class_path = f"{kafka_jars(VERSION)}/*"
        (directory / "log4j.properties").write_text(_LOG4J)
        (directory / "zookeeper.properties").write_text(
            f"dataDir={directory}/zookeeper\nclientPort={self._zookeeper_port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n"
        )
        (directory / "server.properties").write_text(
            f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{self.port}\nlog.dirs={directory}/data\n"
            f"zookeeper.connect=127.0.0.1:{self._zookeeper_port}\noffsets.topic.replication.factor=1\n"
            "offsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\ntransaction.state.log.num.partitions=1\n"
            "group.initial.rebalance.delay.ms=0\nauto.create.topics.enable=false\n"
        )

    def __enter__(self) -> Self:
        try:
            self._launch("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper", self._zookeeper_port)
            self._launch("kafka.Kafka", "server", self.port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for log, process in reversed(self._processes.items()):
            unfollow(log)
            process.kill()
            process.wait()

    def tool(self, main_class: str, *arguments: str) -> str:
        """What one of Kafka's own tools of that time prints; raises CalledProcessError when it fails."""
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", self.class_path, main_class, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout

    def _launch(self, main_class: str, name: str, port: int) -> None:
        log = self._directory / f"{name}.log"
        options = f"-Dlog4j.configuration=file:{self._directory}/log4j.properties"
        arguments = ["-Xmx256m", "-XX:TieredStopAtLevel=1", options, "-cp", self.class_path, main_class]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*with_the_test_run(), "java", *arguments, str(self._directory / f"{name}.properties")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._processes[log] = process
        follow(log)

        def listens() -> bool:
            assert process.poll() is None, log.read_text()[-4000:]
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
                return True

        wait_for(listens, f"a listening {name}", ignoring=(OSError,))
