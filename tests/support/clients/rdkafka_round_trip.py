"""A librdkafka producer and consumer with TLS: a program of its own, so that a library can stand before its libc.

Arguments: bootstrap servers, topic with three partitions, PEM file of the CA, number of records. Prints as JSON the
leaders of the partitions, sorted, the brokers' hosts by id, and how many records came back from each partition.
"""

import json
import sys
import time
import uuid
from collections import Counter

from confluent_kafka import Consumer, Producer

WITHIN_S = 90.0


def main() -> None:
    bootstrap, topic, authority, records = sys.argv[1:5]
    settings = {"bootstrap.servers": bootstrap, "security.protocol": "SSL", "ssl.ca.location": authority}
    producer = Producer({**settings, "enable.idempotence": True})
    for number in range(int(records)):
        producer.produce(topic, str(number).encode(), partition=number % 3)
        producer.poll(0)
    left = producer.flush(WITHIN_S)
    consumer = Consumer({**settings, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: Counter[int] = Counter()
    deadline = time.monotonic() + WITHIN_S
    while got.total() < int(records) and time.monotonic() < deadline:
        got.update(message.partition() or 0 for message in consumer.consume(500, 0.5) if message.error() is None)
    seen = consumer.list_topics(topic)
    consumer.close()
    leaders = sorted(partition.leader for partition in seen.topics[topic].partitions.values())
    hosts = {broker.id: f"{broker.host}:{broker.port}" for broker in seen.brokers.values()}
    print(json.dumps({"left": left, "got": got, "leaders": leaders, "hosts": hosts}, sort_keys=True))


if __name__ == "__main__":
    main()
