"""A real OpenTelemetry Collector on loopback, built once from the pinned modules of `tests/otelcol`.

`PYTHONPATH=tests python -m support.receivers.otel_collector` builds it. It writes what it received to a file, which is
read back exactly.
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData, ResourceMetrics
from support.brokers.kafka_broker import with_the_test_run
from support.built import BUILD_WITHIN_S, ROOT, built
from support.ports import free_ports
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

from fleetgauge.exporters.labels import Labeller, LabelSettings
from fleetgauge.telemetry.push_record import PushRecord

VERSION = "v0.155.0"
SOURCES = ROOT / "tests" / "otelcol"

_GO = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}


def missing_tools() -> str:
    """Why there is no collector here; empty if there can be one."""
    return "" if shutil.which("go") else "a real OpenTelemetry Collector is built with Go, which is not installed"


def collector_program() -> Path:
    """The program; fetched and built the first time, which takes minutes."""
    return built(f"otelcol-{VERSION}", _build, SOURCES) / "dist" / "otelcol"


def _build(target: Path) -> None:
    """The builder writes the Go sources alone: its own `go mod tidy` asks for modules that other tests need."""
    environment = {**os.environ, **_GO}
    install = ["go", "install", f"go.opentelemetry.io/collector/cmd/builder@{VERSION}"]
    _run(install, target, {**environment, "GOFLAGS": "-buildvcs=false", "GOBIN": str(target)})
    configuration = str(SOURCES / "builder.yaml")
    _run(
        [f"{target}/builder", "--skip-get-modules", "--skip-compilation", "--config", configuration],
        target,
        environment,
    )
    for name in ("go.mod", "go.sum"):
        shutil.copy(SOURCES / name, target / "dist" / name)
    _run(["go", "build", "-trimpath", "-ldflags=-s -w", "-o", "otelcol", "."], target / "dist", environment)


def _run(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=BUILD_WITHIN_S
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")


class OtelCollector:
    """One collector, on ports that stay its own; may be stopped, killed, held up and started again.

    Args:
        directory: for its configuration, log and what it received.
        receiver: settings of both of its protocols.
        processors: in the order of the pipeline.
        exporter: what it does with what it took; by default it is written to a file.
    """

    def __init__(
        self,
        directory: Path,
        *,
        receiver: Mapping[str, Any] | None = None,
        processors: Mapping[str, Any] | None = None,
        exporter: Mapping[str, Any] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log = directory / "collector.log"
        self.grpc_port, self.http_port = free_ports(2)
        self.receiver = dict(receiver or {})
        self.processors = dict(processors or {})
        self.exporter = dict(exporter or self._file())
        self.process: subprocess.Popen[bytes] | None = None
        self._program = collector_program()

    def _file(self) -> dict[str, Any]:
        # With a rotation nothing is buffered: what was acknowledged is in the file, and a restart goes on at its end.
        path = str(self.directory / "received.pb")
        return {"file": {"path": path, "format": "proto", "rotation": {"max_megabytes": 4_096}}}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def port(self, protocol: str) -> int:
        """Where it takes that protocol."""
        return self.http_port if protocol == "http/protobuf" else self.grpc_port

    def start(self) -> None:
        """Starts it and waits until both ports answer."""
        self._cut_off_what_was_not_acknowledged()
        config = self.directory / "config.yaml"
        config.write_text(json.dumps(self._config()))  # JSON is YAML
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*with_the_test_run(), str(self._program), "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        follow(self.log)
        wait_for(self._ports_that_answer, "both ports of the collector", until=lambda ports: len(ports) == 2)

    def _ports_that_answer(self) -> list[int]:
        assert self.process is not None
        assert self.process.poll() is None, f"the collector ended: {self.output()}"
        return [port for port in (self.grpc_port, self.http_port) if _answers(port)]

    def _config(self) -> dict[str, Any]:
        ports = {"grpc": self.grpc_port, "http": self.http_port}
        protocols = {
            name: {"endpoint": f"127.0.0.1:{port}", **self.receiver.get("both", {}), **self.receiver.get(name, {})}
            for name, port in ports.items()
        }
        pipeline = {"receivers": ["otlp"], "processors": [*self.processors], "exporters": [*self.exporter]}
        return {
            "receivers": {"otlp": {"protocols": protocols}},
            "processors": self.processors,
            "exporters": self.exporter,
            "service": {
                "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "warn"}},
                "pipelines": {"metrics": pipeline},
            },
        }

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(PATIENCE_S)
        unfollow(self.log)
        return code

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        unfollow(self.log)

    def hold(self) -> None:
        """It hangs: its connections stay open, and nothing is answered, until `go_on`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Goes on where it was held."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _cut_off_what_was_not_acknowledged(self) -> None:
        """Cuts the file behind its last whole message: the next run would go on behind half a one."""
        if self._received.exists():
            whole = sum(4 + len(message) for message in self._messages())
            os.truncate(self._received, whole)

    @property
    def _received(self) -> Path:
        return self.directory / "received.pb"

    def received(self) -> Iterator[ResourceMetrics]:
        """Everything that it has written to its file and acknowledged, in order."""
        for message in self._messages():
            yield from MetricsData.FromString(message).resource_metrics

    def _messages(self) -> Iterator[bytes]:
        """The whole messages of its file: 4 bytes of length (big endian) and a message each."""
        data = self._received.read_bytes() if self._received.exists() else b""
        position = 0
        while position + 4 <= len(data):
            (size,) = struct.unpack_from(">I", data, position)
            if position + 4 + size > len(data):
                return
            yield data[position + 4 : position + 4 + size]
            position += 4 + size

    def output(self) -> str:
        """The end of what it logged."""
        return self.log.read_text(errors="replace")[-4_000:] if self.log.exists() else ""


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(PATIENCE_S)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def compare(
    collector: OtelCollector, pushed: Sequence[PushRecord], settings: LabelSettings | None = None
) -> tuple[int, int]:
    """How many pushes arrived, and how often one came again; each is a client's only one, and equal to what was pushed.

    A push that arrived differs in nothing from what its client sent but for the labels.
    """
    expected = {
        record.client_instance_id: [
            _canonical(each) for each in MetricsData.FromString(Labeller(settings).labelled(record)).resource_metrics
        ]
        for record in pushed
        if record.metrics
    }
    found: dict[str, list[bytes]] = {}
    for resource_metrics in collector.received():
        labels = {item.key: item.value.string_value for item in resource_metrics.resource.attributes}
        found.setdefault(labels["client_instance_id"], []).append(_canonical(resource_metrics))
    repeated = 0
    for client, parts in found.items():
        once = expected[client]
        times, rest = divmod(len(parts), len(once))
        assert rest == 0, f"{client} arrived in part"
        assert parts == once * times, f"{client} arrived changed"
        repeated += times - 1
    return len(found), repeated


def _canonical(resource_metrics: ResourceMetrics) -> bytes:
    """Bytes that are equal for equal meaning: the Collector writes an empty scope where a client wrote none."""
    for scope_metrics in resource_metrics.scope_metrics:
        scope_metrics.scope.SetInParent()
    return resource_metrics.SerializeToString(deterministic=True)


if __name__ == "__main__":
    if missing_tools():
        sys.exit(missing_tools())
    print(collector_program())
