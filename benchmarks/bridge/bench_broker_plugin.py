"""What the plugin costs a real broker: produce latency and throughput with pushing clients, with and without it.

    python benchmarks/bridge/bench_broker_plugin.py [--version 4.3.1] [--rounds 5] [--clients 200] [--seconds 8]

Two brokers of one version run side by side, one with the plugin and `clients` raw clients that each push 1.4 kB (S of
MEASURED) a second, one without. Kafka's own ProducerPerformance drives them in turn, first at a fixed rate for the
latency, then as fast as it can for the throughput; the medians' ratios are from this one run. Prints one JSON object.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.broker_road import DATA_TOPIC, broker_with_plugin, create_topic, settled
from support.kafka_broker import KafkaBroker
from support.payloads import metrics_data
from support.raw_client import RawClient

RATE = 2_000
_FIGURES = re.compile(r"([\d.]+) records/sec.*?([\d.]+) ms avg latency.*?([\d.]+) ms 50th.*?([\d.]+) ms 99th")


class Pushers(threading.Thread):
    """Raw clients that push once a second each, evenly spread, until they are stopped."""

    def __init__(self, port: int, clients: int) -> None:
        super().__init__(daemon=True)
        self._connections = [RawClient(port, client_id=f"pusher-{number}") for number in range(clients)]
        self._subscriptions = [client.get(uuid.uuid4()) for client in self._connections]
        self._payload = metrics_data(12)
        self._stopped = threading.Event()
        self.pushes = 0
        self.other_answers = 0

    def run(self) -> None:
        pause = 1.0 / len(self._connections)
        while not self._stopped.is_set():
            started = time.monotonic()
            for number, (client, subscription) in enumerate(zip(self._connections, self._subscriptions, strict=True)):
                answer = client.push(subscription, self._payload)
                self.pushes += 1
                self.other_answers += answer.error_code != 0
                self._stopped.wait(max(0.0, started + (number + 1) * pause - time.monotonic()))
            self._stopped.wait(max(0.0, started + 1.02 - time.monotonic()))

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        for client in self._connections:
            client.close()


def produce(broker: KafkaBroker, rate: int, seconds: float) -> dict[str, float]:
    """One run of ProducerPerformance; records of 1 kB; rate -1 is as fast as it goes."""
    records = int((rate if rate > 0 else 40_000) * seconds)
    printed = broker.tool(
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", DATA_TOPIC, "--num-records", str(records)),
        *("--record-size", "1000", "--throughput", str(rate), "--producer-props"),
        *(f"bootstrap.servers={broker.bootstrap}", "acks=all", "enable.metrics.push=false"),
        timeout_s=300,
    )
    last = printed.strip().splitlines()[-1]
    match = _FIGURES.search(last)
    assert match is not None, last
    per_second, average, p50, p99 = map(float, match.groups())
    return {"per_second": per_second, "avg_ms": average, "p50_ms": p50, "p99_ms": p99}


def measure(version: str, rounds: int, clients: int, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        plain = KafkaBroker(directory / "plain", version)
        with broker_with_plugin(directory / "plugin", version) as plugin, plain:
            for broker in (plugin, plain):
                create_topic(broker.bootstrap)
            plugin.subscribe(interval_ms=1000)
            pushers = Pushers(plugin.port, clients)
            pushers.start()
            for broker in (plugin, plain):  # warm-up
                produce(broker, RATE, 5)
            latency: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
            throughput: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
            for number in range(rounds):
                both = [("with", plugin), ("without", plain)]
                for name, broker in both if number % 2 == 0 else reversed(both):
                    latency[name].append(produce(broker, RATE, seconds))
                    throughput[name].append(produce(broker, -1, seconds))
            pushers.stop()
            counts = settled(plugin)
    p99 = [one["p99_ms"] / other["p99_ms"] for one, other in zip(latency["with"], latency["without"], strict=True)]
    rate = [
        one["per_second"] / other["per_second"]
        for one, other in zip(throughput["with"], throughput["without"], strict=True)
    ]
    return {
        "kafka": version,
        "pushing_clients": clients,
        "pushes": pushers.pushes,
        "answers_other_than_NONE": pushers.other_answers,
        "plugin": counts,
        "latency_at_a_fixed_rate": latency,
        "throughput": throughput,
        "median_p99_with_to_without": round(statistics.median(p99), 3),
        "median_throughput_with_to_without": round(statistics.median(rate), 3),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--version", default="4.3.1")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--clients", type=int, default=200)
    arguments.add_argument("--seconds", type=float, default=8.0)
    chosen = arguments.parse_args()
    result = measure(chosen.version, chosen.rounds, chosen.clients, chosen.seconds)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({**result, **machine, "load_after": os.getloadavg()}, indent=2))


if __name__ == "__main__":
    main()
