"""CPU that a round of `fleetgauge offsets` takes, against a real Kafka broker.

    PYTHONPATH=tests:. .venv/bin/python benchmarks/exporters/bench_group_offsets.py --groups 500 --topics 40

The groups have committed offsets for all partitions of one of the topics, and no members, but for `--members` groups,
each of which a real consumer joins. CPU is that of this process with librdkafka's threads: of members and committed
offsets per group, of end offsets per distinct partition, of rows and Parquet per row. Prints one JSON object; `at_goal`
is what these costs make of 5,000 groups that each have a topic of 50 partitions, sampled once a minute [cores].
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.brokers.kafka_broker import KafkaBroker

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.group_offsets.sampler import Sampler
from fleetgauge.exporters.group_offsets.schema import record_batch
from fleetgauge.exporters.group_offsets.settings import OffsetsSettings
from fleetgauge.exporters.group_offsets.zone import encode

GOAL_GROUPS, GOAL_PARTITIONS, GOAL_EVERY_S = 5_000, 50, 60


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, its CPU and its time [s]."""
    cpu, begin = time.process_time(), time.monotonic()
    found = function()
    return found, time.process_time() - cpu, time.monotonic() - begin


def make_groups(admin: AdminClient, groups: int, partitions: int, topics: int) -> None:
    names = [f"topic-{number}" for number in range(topics)]
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        future.result(120)
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda number: commit(admin, number, names[number % topics], partitions), range(groups)))


def commit(admin: AdminClient, number: int, topic: str, partitions: int) -> None:
    """Commits offset 1 of each partition for a group without members."""
    places = [TopicPartition(topic, each, 1) for each in range(partitions)]
    asked = [ConsumerGroupTopicPartitions(f"group-{number:05d}", places)]
    for attempt in range(60):
        try:
            (done,) = admin.alter_consumer_group_offsets(asked, request_timeout=20).values()
            if all(each.error is None for each in done.result(30).topic_partitions):
                return
        except KafkaException:  # the coordinator is not there yet
            pass
        time.sleep(min(0.2 * attempt, 1.0))
    raise SystemExit(f"group {number} could not be made")


def join(bootstrap: str, groups: int, topics: int) -> list[Consumer]:
    consumers = []
    for number in range(groups):
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{number:05d}",
            "enable.metrics.push": False,
            "log_level": 0,
        }
        consumers.append(Consumer(settings))
        consumers[-1].subscribe([f"topic-{number % topics}"])
    deadline = time.monotonic() + 60
    while not all(each.assignment() for each in consumers) and time.monotonic() < deadline:
        for each in consumers:
            each.poll(0.01)
    return consumers


def measure(admin: AdminClient, bootstrap: str, rounds: int) -> dict[str, Any]:
    settings = OffsetsSettings(
        bootstrap_servers=bootstrap, path="-", writer="-", interval_ms=600_000, timeout_ms=60_000,
        max_requests_per_s=10_000,
    )  # fmt: skip
    sampler = Sampler(lambda: admin, settings, SystemTime())
    sampler.round()  # connects, and learns coordinators and leaders
    found = []
    for _ in range(rounds):
        deadline_ms = SystemTime().hi_res_clock_ms() + 600_000
        _, whole_cpu, whole_s = timed(sampler.round)
        names, _ = sampler._names()
        groups, groups_cpu, _ = timed(lambda: sampler._sampled(names, deadline_ms))  # noqa: B023
        wanted = {each for group in groups for each in group.offsets}
        ends, ends_cpu, _ = timed(lambda: sampler._ends(wanted, deadline_ms))  # noqa: B023
        samples, rows_cpu, _ = timed(lambda: [row for group in groups for row in sampler._rows(group, ends)])  # noqa: B023
        data, file_cpu, _ = timed(lambda: encode(pa.Table.from_batches([record_batch(samples)])))  # noqa: B023
        assert not any(each.error for each in samples)
        found.append((whole_cpu, whole_s, groups_cpu, ends_cpu, rows_cpu + file_cpu, len(data)))
    best = [min(column) for column in zip(*found, strict=True)]
    per_group, per_end, per_row = best[2] / len(names), best[3] / len(wanted), best[4] / len(samples)
    goal_rows = GOAL_GROUPS * GOAL_PARTITIONS
    at_goal = (per_group * GOAL_GROUPS + (per_end + per_row) * goal_rows) / GOAL_EVERY_S
    return {
        "groups": len(names),
        "rows": len(samples),
        "distinct_partitions": len(wanted),
        "round_cpu_s": round(best[0], 3),
        "round_s": round(best[1], 3),
        "cpu_us_per_group": round(per_group * 1e6, 1),
        "cpu_us_per_distinct_partition": round(per_end * 1e6, 2),
        "cpu_us_per_row_to_parquet": round(per_row * 1e6, 2),
        "bytes_per_row": round(best[5] / len(samples), 2),
        "cores_as_measured_once_a_minute": round(best[0] / GOAL_EVERY_S, 4),
        "at_goal": round(at_goal, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--topics", type=int, default=40)
    parser.add_argument("--members", type=int, default=20, help="groups with a real consumer")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, KafkaBroker(Path(made) / "kafka", "4.3.1", heap="768m") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        make_groups(admin, given.groups, given.partitions, given.topics)
        consumers = join(broker.bootstrap, given.members, given.topics)
        print(json.dumps(measure(admin, broker.bootstrap, given.rounds), indent=2))
        for each in consumers:
            each.close()


if __name__ == "__main__":
    main()
