"""What the plugin costs a real broker: produce latency and throughput with pushing clients, with and without it.

    python benchmarks/bridge/bench_broker_plugin.py [--version 4.3.1] [--rounds 5] [--clients 200] [--seconds 8]

Three brokers of one version stand side by side: one whose reporter does nothing with a push (the base: without any
reporter no client would push), one with the plugin, and one with the plugin whose topic cannot be reached, so that it
drops what its buffer cannot hold. In every round each of them is driven in turn, in an order that changes, while
`clients` raw clients push 1.4 kB a second each to the one that is measured: by Kafka's own
ProducerPerformance at a fixed rate for the latency, then as fast as it can for the throughput. Ratios to the base are
those of one round; their medians are printed, with every figure, as one JSON object.
"""

import argparse
import contextlib
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
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.brokers.broker_pipeline import DATA_TOPIC, PACKAGE, REPORTERS, create_topic
from support.brokers.kafka_broker import NODE_ID, KafkaBroker
from support.brokers.kafka_jars import bridge_jar, kafka_jars
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data

from fleetgauge.base.errors import ErrorCode

RATE = 2_000
BASE, PLUGIN, TOPIC_AWAY = "no-op reporter", "plugin", "plugin, topic away"
_FIGURES = re.compile(r"([\d.]+) records/sec.*?([\d.]+) ms avg latency.*?([\d.]+) ms 50th.*?([\d.]+) ms 99th")


class Pushers(threading.Thread):
    """Raw clients that push once a second each, evenly spread, while they are let."""

    def __init__(self, port: int, clients: int) -> None:
        super().__init__(daemon=True)
        self._connections = [RawClient(port, client_id=f"pusher-{number}") for number in range(clients)]
        self._subscriptions = [client.get(uuid.uuid4()) for client in self._connections]
        self._payload = metrics_data(12)
        self._may_push = threading.Event()
        self._stopped = False
        self.answers: Counter[str] = Counter()

    def run(self) -> None:
        pause = 1.0 / len(self._connections)
        # A client that was held up must not push again before its interval has passed since: it would be throttled.
        not_before = [0.0] * len(self._connections)
        while not self._stopped:
            self._may_push.wait()
            started = time.monotonic()
            for number, (client, subscription) in enumerate(zip(self._connections, self._subscriptions, strict=True)):
                time.sleep(max(0.0, max(started + number * pause, not_before[number]) - time.monotonic()))
                answer = client.push(subscription, self._payload)
                self.answers[ErrorCode(answer.error_code).name] += 1
                not_before[number] = time.monotonic() + 1.02

    def __enter__(self) -> None:
        """Lets them push for a while."""
        self._may_push.set()

    def __exit__(self, *_: object) -> None:
        self._may_push.clear()

    def stop(self) -> None:
        self._stopped = True
        self._may_push.set()
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


def brokers(directory: Path, version: str) -> dict[str, KafkaBroker]:
    """The three that are compared."""
    plugin = {"metric.reporters": f"org.apache.kafka.common.metrics.JmxReporter,{PACKAGE}.{REPORTERS[version]}"}
    away = {"fleetgauge.bootstrap.servers": "127.0.0.1:1", "fleetgauge.buffer.bytes": str(2 * 1024 * 1024)}
    away["fleetgauge.telemetry.max.decompressed.bytes"] = str(1024 * 1024)
    classes = directory / "classes"
    source = Path(__file__).parent / "NoOpReporter.java"
    subprocess.run(["javac", "-cp", f"{kafka_jars(version)}/*", "-d", str(classes), str(source)], check=True)
    jars = [classes, bridge_jar()]
    no_op = {"metric.reporters": "NoOpReporter"}
    return {
        name: KafkaBroker(directory / folder, version, jars=jars, properties=properties, jvm=())
        for name, folder, properties in (
            (BASE, "base", no_op),
            (PLUGIN, "plugin", plugin),
            (TOPIC_AWAY, "away", plugin | away),
        )
    }


def measure(version: str, rounds: int, clients: int, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as stack:
        compared = brokers(Path(made), version)
        pushers = {}
        for name, broker in compared.items():
            stack.enter_context(broker)
            create_topic(broker.bootstrap)
            broker.subscribe(interval_ms=1000)
            pushers[name] = Pushers(broker.port, clients)
            pushers[name].start()
        figures: dict[str, dict[str, list[dict[str, float]]]] = {name: {"fixed": [], "full": []} for name in compared}
        for number in range(-1, rounds):  # the first one is the warm-up
            order = list(compared)[number % 3 :] + list(compared)[: number % 3]
            for name in order if number % 2 == 0 else reversed(order):
                with pushers[name]:
                    fixed, full = produce(compared[name], RATE, seconds), produce(compared[name], -1, seconds)
                if number >= 0:
                    figures[name]["fixed"].append(fixed)
                    figures[name]["full"].append(full)
        for each in pushers.values():
            each.stop()
        mbean = f"fleetgauge:type=bridge,node-id={NODE_ID}"
        counts = {name: compared[name].mbean(mbean) for name in (PLUGIN, TOPIC_AWAY)}
    return {
        "kafka": version,
        "pushing_clients": clients,
        "answers": {name: dict(each.answers) for name, each in pushers.items()},
        "plugins": {
            name: {key: int(value) for key, value in mbeans.items() if value.isdigit() and int(value)}
            for name, mbeans in counts.items()
        },
        "figures": figures,
        "median_p99_to_no_op": {name: ratio(figures, name, "fixed", "p99_ms") for name in (PLUGIN, TOPIC_AWAY)},
        "median_p50_to_no_op": {name: ratio(figures, name, "fixed", "p50_ms") for name in (PLUGIN, TOPIC_AWAY)},
        "median_throughput_to_no_op": {
            name: ratio(figures, name, "full", "per_second") for name in (PLUGIN, TOPIC_AWAY)
        },
    }


def ratio(figures: dict[str, dict[str, list[dict[str, float]]]], name: str, run: str, figure: str) -> float:
    """The median over the rounds of one broker's figure to the base's."""
    pairs = zip(figures[name][run], figures[BASE][run], strict=True)
    return round(statistics.median(one[figure] / base[figure] for one, base in pairs), 3)


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
