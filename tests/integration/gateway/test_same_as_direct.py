"""The same work of every kind of client, directly and through three gateways, at one cluster of three brokers.

What is compared is what the cluster has afterwards, in the order of each partition, without aborted transactions; what
clients and tools say; and the generations of groups. A producer may drop unsent records of a transaction that it
aborts, so that offsets differ from run to run.
"""

import difflib
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.consumer import KafkaConsumer
from kafka.producer import KafkaProducer
from support.brokers.kafka_broker import MISSING
from support.clients.java_clients import streams_command
from support.clients.telemetry_clients import franz_go
from support.gateway.gateway import GatewayBefore, ShareGroup, consumed, round_trip
from support.gateway.gateway_cluster import ClusterBroker, create_topic
from support.waiting import PATIENCE_S, follow, unfollow

pytestmark = [
    pytest.mark.integration,
    pytest.mark.soak,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "-"),
]
RESULTS = Path(__file__).parents[3] / ".results"
PARTITIONS = 3


@dataclass(frozen=True)
class Way:
    """A way to the cluster.

    Attributes:
        name: of the way, which its topics begin with.
        bootstrap: where its clients begin.
        broker: runs Kafka's tools.
        directory: for what clients write.
    """

    name: str
    bootstrap: str
    broker: ClusterBroker
    directory: Path

    def tool(self, main_class: str, *arguments: str) -> str:
        """What a tool prints; what belongs to this way alone has another name."""
        printed = re.sub(r"\S*/127\.0\.0\.1|127\.0\.0\.1:\d+", "ADDRESS", self.broker.tool(main_class, *arguments))
        return re.sub(r"[ \t]+", " ", re.sub(r"\b(direct|through)-", "way-", printed))


def java(version: str, *protocols: str) -> Callable[[Way, str], object]:
    """Idempotent and transactional producers, and a consumer of each group protocol."""
    return lambda way, topic: round_trip(version, way.bootstrap, topic, 1_000, *protocols)


def streams(way: Way, topic: str) -> object:
    counts = f"{topic}-counts"
    create_topic(way.bootstrap, counts, 1, 3)
    for partition in range(PARTITIONS):
        produce(way, topic, 100, partition)
    command = [*streams_command("4.4.0", "StreamsCount"), way.bootstrap, topic, counts, str(way.directory)]
    written = way.directory / "streams.log"
    with written.open("wb") as log, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log) as process:
        follow(written)
        try:
            settings = {"bootstrap.servers": way.bootstrap, "isolation.level": "read_committed"}
            values = consumed(counts, 100 * PARTITIONS, **settings)
            process.communicate(timeout=PATIENCE_S)
        finally:
            unfollow(written)
            process.kill()
    return sorted(values, key=str)


def share_group(way: Way, topic: str) -> object:
    produce(way, topic, 1_000)
    with ShareGroup(way.bootstrap, topic, 1_000) as group:
        return group.wait()


def librdkafka(way: Way, topic: str) -> object:
    for partition in range(PARTITIONS):
        produce(way, topic, 1_000, partition)
    return sorted(consumed(topic, 1_000 * PARTITIONS, **{"bootstrap.servers": way.bootstrap}), key=str)


def franz_go_client(way: Way, topic: str) -> object:
    """Idempotent and transactional producers, and two members of a group one after the other."""
    command = [str(franz_go("1.22.2", "roundtrip")), way.bootstrap, topic, str(PARTITIONS), "500"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def kafka_python(way: Way, topic: str) -> object:
    producer = KafkaProducer(bootstrap_servers=way.bootstrap, acks="all")
    for number in range(300):
        producer.send(topic, str(number).encode(), partition=number % PARTITIONS)
    producer.flush(PATIENCE_S)
    producer.close()
    found = []
    for _ in range(3):
        consumer = KafkaConsumer(
            bootstrap_servers=way.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            consumer_timeout_ms=int(PATIENCE_S * 1_000),
        )
        assert consumer.partitions_for_topic(topic)  # else it may join without knowing any, and join again
        consumer.subscribe([topic])
        values = sorted(next(consumer).value for _ in range(100))
        consumer.commit()
        found.append((consumer.group_metadata().generation_id, len(values)))
        consumer.close(autocommit=False)
    return found


def perf_test(way: Way, topic: str) -> object:
    printed = way.broker.tool(
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "50000"),
        *("--record-size", "1000", "--throughput", "-1", "--producer-props"),
        *(f"bootstrap.servers={way.bootstrap}", "acks=all"),
    )
    return printed.splitlines()[-1].partition(",")[0]


def tools(way: Way, topic: str) -> object:
    produce(way, topic, 10)
    at = ("--bootstrap-server", way.bootstrap)
    placed = "direct-0"  # for both ways: the controller places the replicas of each topic anew
    groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    console = ("org.apache.kafka.tools.consumer.ConsoleConsumer", *at, "--topic", topic, "--group", topic)
    return [
        way.tool("org.apache.kafka.tools.TopicCommand", *at, "--describe", "--topic", placed),
        way.tool("org.apache.kafka.tools.GetOffsetShell", *at, "--topic", topic),
        way.tool(
            *console,
            *("--from-beginning", "--max-messages", "10", "--command-property", "group.protocol=consumer"),
        ),
        way.tool(groups, *at, "--describe", "--group", topic, "--offsets"),
        way.tool(groups, *at, "--describe", "--group", topic, "--state", "--verbose"),
        way.tool(groups, *at, "--delete", "--group", topic),
        way.tool("org.apache.kafka.tools.TopicCommand", *at, "--alter", "--topic", topic, "--partitions", "4"),
    ]


WORK: dict[str, tuple[Callable[[Way, str], object], int]] = {
    "Java 4.4.0: idempotent, transactional, both group protocols": (java("4.4.0", "classic", "consumer"), 3),
    "Java 3.9.2: idempotent, transactional, classic groups": (java("3.9.2", "classic"), 3),
    "Java 3.7.2: idempotent, transactional, classic groups": (java("3.7.2", "classic"), 3),
    "Kafka Streams 4.4.0, exactly once": (streams, 3),
    "share group, Java 4.4.0": (share_group, 3),
    "librdkafka": (librdkafka, 3),
    "franz-go: idempotent, transactional, with the generations of its group": (franz_go_client, 3),
    "kafka-python, with the generations of its group": (kafka_python, 3),
    "kafka-producer-perf-test": (perf_test, 1),  # it chooses partitions by the time that batches take
    "kafka-topics, kafka-get-offsets, kafka-console-consumer, kafka-consumer-groups": (tools, 3),
}
"""What is done with a topic of so many partitions."""


def produce(way: Way, topic: str, records: int, partition: int = 0) -> None:
    """Sends numbers to one partition, idempotently."""
    producer = Producer({"bootstrap.servers": way.bootstrap, "log_level": 0, "enable.idempotence": True})
    for number in range(records):
        producer.produce(topic, str(number), partition=partition)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def records_of(bootstrap: str, topic: str) -> list[list[bytes | None]]:
    """Values of a topic's committed records, by partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0, "enable.partition.eof": True}
    )
    partitions = range(len(consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[list[bytes | None]] = [[] for _ in partitions]
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{topic} cannot be read to its end"
        if message.error() is None:
            found[message.partition() or 0].append(message.value())
        else:
            ended += 1
    consumer.close()
    return found


def test_clients_get_the_same_through_three_gateways_as_directly(
    cluster: tuple[list[ClusterBroker], list[GatewayBefore]], tmp_path: Path
) -> None:
    brokers, gateways = cluster
    direct = ",".join(broker.bootstrap for broker in brokers)
    through = ",".join(gateway.bootstrap for gateway in gateways)
    ways = [
        Way("direct", direct, brokers[0], tmp_path / "direct"),
        Way("through", through, brokers[0], tmp_path / "through"),
    ]
    for way in ways:
        way.directory.mkdir()
    rows, differing = [], []
    for number, (what, (work, partitions)) in enumerate(WORK.items()):
        found = []
        for way in ways:
            topic = f"{way.name}-{number}"
            create_topic(way.bootstrap, topic, partitions, 3)
            found.append((work(way, topic), records_of(direct, topic)))
        (said, records), (said_through, records_through) = found
        if said != said_through:
            differing += [what, *difflib.ndiff(pformat(said).splitlines(), pformat(said_through).splitlines())]
        if records != records_through:
            differing.append(f"{what}: {list(map(len, records))} and {list(map(len, records_through))} records")
        is_same = "yes" if found[0] == found[1] else "no"
        rows.append(f"| {what} | {sum(map(len, records)):,} | {sum(map(len, records_through)):,} | {is_same} |")
    RESULTS.mkdir(exist_ok=True)
    head = ["| clients | records, directly | through gateways | all the same |", "|---|---|---|---|"]
    (RESULTS / "gateway-and-direct.md").write_text("\n".join([*head, *rows]) + "\n")
    assert not differing, "\n".join(differing)
    assert all(gateway.status()["gateway"]["requests"]["Produce"] for gateway in gateways)
