"""The Kroxylicious proxy as its own process before one broker, on ports that were free."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from support.brokers.kafka_broker import NODE_ID, with_the_test_run
from support.brokers.kafka_jars import fetched
from support.certificates import Certificate
from support.clients.java_clients import compiled_java
from support.clients.raw_client import RawClient
from support.ports import free_ports
from support.waiting import follow, unfollow, wait_for

VERSION = "0.12.0"
_ANSWER_WITHIN_S = 5.0
"""Short, since the proxy never reads a connection that comes while it still starts to listen [s]."""


class Kroxylicious:
    """One proxy whose virtual clusters are listeners of one `KafkaBroker`.

    Args:
        directory: for its configuration and its log, `kroxylicious.log`.
        broker_port: of the broker, on loopback.
        login_port: of a listener of the broker that the proxy has behind TLS, if any.
        certificate: the proxy's, for TLS.
        options: of its JVM.
        jars: beside the proxy's own.
        configuration: YAML beside that of the virtual cluster; `{management_port}` is replaced.

    Attributes:
        port: where clients find the broker.
        tls_port: where they find its listener at `login_port`.
        management_port: free for an HTTP port of the proxy, if `configuration` has one.
    """

    def __init__(
        self,
        directory: Path,
        broker_port: int,
        *,
        options: Sequence[str] = (),
        jars: Sequence[Path] = (),
        configuration: str = "",
        login_port: int | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, node_port, self.tls_port, tls_node_port, self.management_port = free_ports(5)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.log = directory / "kroxylicious.log"
        file = directory / "kroxylicious.yaml"
        written = configuration.format(management_port=self.management_port)
        written += "virtualClusters:" + _virtual_cluster("plaintext", broker_port, self.port, node_port)
        if login_port is not None and certificate is not None:
            written += _virtual_cluster("login", login_port, self.tls_port, tls_node_port, certificate)
        file.write_text(written)
        self._command = [*with_the_test_run(), "java", *options, *_program(jars), str(file)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        follow(self.log)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        unfollow(self.log)
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Of its process, which runs."""
        assert self._process is not None
        return self._process.pid

    def output(self) -> str:
        """What it logged so far."""
        return self.log.read_text(errors="replace")

    def _wait_until_it_answers(self, process: "subprocess.Popen[bytes]") -> None:
        """Asks again on another connection each time, since the proxy may never read the first ones."""

        def answer() -> bytes:
            assert process.poll() is None, f"the proxy ended: {self.output()}"
            with RawClient(self.port, timeout_s=_ANSWER_WITHIN_S) as client:
                return client.api_versions()

        wait_for(answer, "an answer of the proxy", ignoring=(OSError,))


def _program(jars: Sequence[Path]) -> list[str]:
    own = fetched(f"kroxylicious-{VERSION}", "kroxylicious", f"-Dkroxylicious.version={VERSION}")
    classes = compiled_java("Kroxylicious", own)
    class_path = ":".join([str(classes), f"{own}/*", *map(str, jars)])
    return ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path, "Kroxylicious"]


def _virtual_cluster(
    name: str, broker_port: int, port: int, node_port: int, certificate: Certificate | None = None
) -> str:
    cluster = f"""
  - name: {name}
    targetCluster:
      bootstrapServers: 127.0.0.1:{broker_port}
    gateways:
      - name: clients
        portIdentifiesNode:
          bootstrapAddress: 127.0.0.1:{port}
          advertisedBrokerAddressPattern: 127.0.0.1
          nodeStartPort: {node_port}
          nodeIdRanges:
            - name: broker
              start: {NODE_ID}
              end: {NODE_ID}
"""
    if certificate is not None:
        cluster += f"""
        tls:
          key:
            privateKeyFile: {certificate.key}
            certificateFile: {certificate.certificate}
"""
    return cluster
