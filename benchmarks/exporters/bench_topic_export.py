"""Records per second from a Kafka topic to an OTLP server and to a landing zone, by one `fleetgauge export`.

    python benchmarks/exporters/bench_topic_export.py [--records 100000] [--version 4.3.1] [--rounds 5]

A real broker holds `records` push records (S: 1.4 kB, 12 points) before the export starts. Each
destination is timed alone, from the first record delivered to the last, as the export's own status tells it. Then the
topic is read by a reader alone, in turn with and without the register of the clients (`SeenClients`): the ratio of both
rates, in CPU time, is what `fleetgauge clients` costs where no destination costs anything. Prints one JSON object.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.brokers.broker_pipeline import PUSH_TOPIC
from support.brokers.kafka_broker import KafkaBroker
from support.payloads.payloads import metrics_data
from support.programs.export import Export
from support.programs.push_log import push_record
from support.receivers.receiver import OtlpReceiver

from fleetgauge.node.processes.garbage import freeze_startup_objects
from fleetgauge.push_log.kafka_topic.reader import KafkaTopicReader
from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.push_log.kafka_topic.seen_clients import SeenClients
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.telemetry.push_record import format_instance_id

PARTITIONS = 6


def fill(bootstrap: str, records: int) -> None:
    """Writes the records, four of each instance: most are of a client that is known, as on a topic in use."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "enable.metrics.push": False})
    admin.create_topics([NewTopic(PUSH_TOPIC, num_partitions=PARTITIONS, replication_factor=1)])[PUSH_TOPIC].result(30)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": "zstd",
            "linger.ms": 50,
            "queue.buffering.max.messages": records + 1,
            "enable.metrics.push": False,
        }
    )
    payload = metrics_data(12)
    instances = [format_instance_id(uuid.uuid4()) for _ in range(max(1, records // 4))]
    for number in range(records):
        record = push_record(number, payload)._replace(client_instance_id=instances[number % len(instances)])
        key, value, headers = encode_record(record)
        producer.produce(PUSH_TOPIC, key=key, value=value, headers=headers)
        producer.poll(0)
    assert producer.flush(120) == 0


def drain(broker: KafkaBroker, directory: Path, name: str, exporter: str, records: int) -> dict[str, Any]:
    """One export with one destination, timed by its own counts."""
    directory.mkdir()
    config = directory / "export.toml"
    config.write_text(
        f'push.log.type = "kafka"\npush.log.kafka.bootstrap.servers = "{broker.bootstrap}"\n'
        f'push.log.kafka.topic.name = "{PUSH_TOPIC}"\n[exporters.{name}]\n{exporter}'
    )
    with Export(directory, config) as export:
        first: tuple[float, int] | None = None
        done = 0
        while done < records:
            time.sleep(0.2)
            try:
                done = int(export.exporter(name)["delivered_records"])
            except ValueError:
                continue
            now = time.perf_counter()
            if done and first is None:
                first = (now, done)
        assert first is not None
        took = now - first[0]
        assert export.stop() == 0
    return {
        "records": records,
        "timed": done - first[1],
        "per_second": round((done - first[1]) / took) if took else None,
    }


def read_rate(bootstrap: str, group: str, records: int, seen: SeenClients | None) -> float:
    """Records per second of this process's CPU time that a reader hands out and commits, from its first batch on."""
    settings = KafkaTopicSettings(bootstrap_servers=bootstrap, topic=PUSH_TOPIC, group_prefix=group)
    reader = KafkaTopicReader(settings, "bench", seen=seen)
    freeze_startup_objects()  # as the exporter process does at its start
    begun = 0.0
    read = first = 0
    while read < records:
        batch = reader.poll(16 << 20, 2_000, 500)
        if batch is None:
            continue
        reader.commit(batch)
        read += len(batch.records)
        if not first:
            begun, first = time.process_time(), read
    took = time.process_time() - begun
    reader.close()
    return (read - first) / took


def cost_of_clients(bootstrap: str, records: int, rounds: int) -> dict[str, Any]:
    """Both rates and the ratio with to without, round by round."""
    found: list[dict[str, float]] = []
    for number in range(rounds):
        rates = {}
        for name in ("without", "with") if number % 2 else ("with", "without"):
            seen = SeenClients(16_384) if name == "with" else None
            rates[name] = read_rate(bootstrap, f"{name}-{number}", records, seen)
        found.append({**{name: round(rate) for name, rate in rates.items()}, "ratio": rates["with"] / rates["without"]})
    return {"rounds": found, "median_ratio": round(statistics.median(each["ratio"] for each in found), 3)}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=100_000)
    arguments.add_argument("--version", default="4.3.1")
    arguments.add_argument("--reading-alone", action="store_true", help="without the destinations")
    arguments.add_argument("--rounds", type=int, default=5, help="of reading with and without the register")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        with KafkaBroker(directory / "kafka", chosen.version, jvm=()) as broker:
            fill(broker.bootstrap, chosen.records)
            if chosen.reading_alone:
                print(json.dumps(cost_of_clients(broker.bootstrap, chosen.records, chosen.rounds), indent=2))
                return
            receiver = OtlpReceiver()
            otlp = f'type = "otlp"\nendpoint = "http://127.0.0.1:{receiver.port}"\n'
            landing = (
                f'type = "landing"\npath = "{directory / "landing"}"\nbatch.max.records = 10000\nlinger.ms = 500\n'
            )
            results = {
                "topic_to_otlp": drain(broker, directory / "otlp", "collector", otlp, chosen.records),
                "topic_to_landing": drain(broker, directory / "land", "landing", landing, chosen.records),
            }
            receiver.finish()
            results["reading_with_the_register_of_clients"] = cost_of_clients(
                broker.bootstrap, chosen.records, chosen.rounds
            )
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({**results, **machine, "load_after": os.getloadavg()}, indent=2))


if __name__ == "__main__":
    main()
