"""Captures what real clients send: `python tests/golden/capture.py`. Writes `captures/<client>.json`.

A node that gives out the ids of a golden node stands behind a proxy, which keeps every chunk of a client, on which
connection and when [ms] it came. `scenarios/captured.py` plays the chunks to a golden node, which therefore gives the
same ids and subscription ids, so that the pushes fit. Captures are made once; another capture is another case.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.driver import BASE, ids
from golden.session import in_hex
from support.clients.telemetry_clients import ClientProcess, FranzGoProcess, JavaProcess, LibrdkafkaProcess
from support.waiting import pause_async, wait_for_async

from fleetgauge.base.clock import SystemTime
from fleetgauge.node.app import FleetgaugeNode
from fleetgauge.node.config.load import load_config

DIRECTORY = Path(__file__).parent / "captures"
CONFIG = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = 500\n'
CLIENTS: dict[str, tuple[type[ClientProcess], str]] = {
    "java_3_9_2": (JavaProcess, "3.9.2"),
    "java_4_4_0": (JavaProcess, "4.4.0"),
    "librdkafka": (LibrdkafkaProcess, LibrdkafkaProcess.NEWEST),
    "franz_go_1_22_2": (FranzGoProcess, "1.22.2"),
    "franz_go_1_19_0": (FranzGoProcess, "1.19.0"),
}
PUSHES = 6


class Recording:
    """The chunks of all connections."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._clock = SystemTime()
        self._started_ms = self._clock.hi_res_clock_ms()
        self._count = 0

    def connection(self) -> str:
        self._count += 1
        return f"c{self._count}"

    def add(self, connection: str, **what: Any) -> None:
        at_ms = self._clock.hi_res_clock_ms() - self._started_ms
        self.events.append({"at_ms": at_ms, "connection": connection, **what})


async def capture(name: str) -> None:
    recording = Recording()
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = recording.connection()
            recording.add(connection, connect=True)
            (bound,) = node.identity.bound
            theirs, ours = await asyncio.open_connection("127.0.0.1", bound.port)

            async def answers() -> None:
                while data := await theirs.read(1 << 16):
                    writer.write(data)
                writer.close()

            answering = asyncio.create_task(answers())
            try:
                while data := await reader.read(1 << 18):
                    recording.add(connection, data=in_hex(data))
                    ours.write(data)
                recording.add(connection, end=True)
            except ConnectionError:
                recording.add(connection, end=True)
            ours.close()
            await asyncio.wait([answering], timeout=5)

        proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        file = directory / "fleetgauge.toml"
        base = BASE.replace("fleetgauge.test:9092", f"127.0.0.1:{port}")
        file.write_text(f'"log.dirs" = "{directory / "data"}"\n{base}\n{CONFIG}')
        config = load_config(file).model_copy(update={"exporters": {}})
        node = FleetgaugeNode(config, new_instance_id=ids().__next__)
        await node.start()
        kind, version = CLIENTS[name]
        client = await asyncio.to_thread(kind, version, f"127.0.0.1:{port}", directory)
        try:
            await wait_for_async(
                lambda: node.status()["telemetry"]["push_answers"],
                f"{PUSHES} pushes",
                until=lambda answers: answers.get("NONE", 0) >= PUSHES,
            )
            client.ask_to_close()
            await asyncio.to_thread(client.wait)
            await pause_async(0.5, "the proxy reads the ends of connections")
        finally:
            client.kill()
            proxy.close()
            await node.stop()
    DIRECTORY.mkdir(exist_ok=True)
    (DIRECTORY / f"{name}.json").write_text(json.dumps(recording.events, indent=0) + "\n")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or CLIENTS:
        asyncio.run(capture(wanted))
        print(wanted)
